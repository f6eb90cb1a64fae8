"""The programs in examples/: each runs as it stands, and a document links to it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from longtake_sandbox.media import draw_clip
from tests.api.stage import Api, place_for, token
from tests.assets.stage import Source
from tests.sandbox_process import running_sandbox
from tests.wait import PATIENCE_SECONDS, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


def run(name: str, *arguments: str, folder: Path, **environment: str) -> str:
    """Run an example as a user does; return what it printed."""
    ended = subprocess.run(
        [sys.executable, ROOT / "examples" / name, *arguments],
        cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_document_links_to_it(name: str) -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    assert any(f"examples/{name})" in one.read_text(encoding="utf-8") for one in documents)


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_is_short(name: str) -> None:
    assert len((ROOT / "examples" / name).read_text(encoding="utf-8").splitlines()) <= 60


def test_the_engine_runs_alone(database_url: str, tmp_path: Path) -> None:
    for _ in range(2):
        printed = run("engine_alone.py", database_url, folder=tmp_path).splitlines()
        assert [line for line in printed if line.isdecimal()] == ["3", "2", "1", "0"]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server that has the example's job kind, with a provider that is quick."""
    with running_sandbox(seconds={"image": 0.1}) as sandbox:
        place = place_for(
            tmp_path_factory.mktemp("examples"), sandbox=sandbox, app="examples.own_job_kind:register",
            poll_seconds="0.1",
        )  # fmt: skip
        with place.server_here() as server:
            api = Api(place, server, sandbox)
            api.grant("ada")
            yield api


def test_your_own_job_kind_runs_beside_the_others(api: Api) -> None:
    assert api.server.operate("schedules.run", name="shop.report").json["created"] is True

    def states() -> list[Any]:
        return [job["state"] for job in api.server.operate("jobs.list", kind="shop.report").json["jobs"]]

    wait_for(lambda: states() == ["done"], "the end of the report")


def test_the_python_client_makes_a_picture(api: Api, tmp_path: Path) -> None:
    printed = run("python_client.py", api.server.url, folder=tmp_path, TOKEN=token("ada"))
    assert [path.name for path in tmp_path.glob("*.png")] == [Path(printed.strip()).name]


async def test_a_row_of_plain_sql_starts_copy_and_thumbnail(api: Api, tmp_path: Path) -> None:
    async with Source().running() as source:
        source.files["/fox.mp4"] = draw_clip("a fox", "16:9", faststart=True)
        arguments = (str(api.place.data / "longtake.db"), f"{source.url}/fox.mp4")
        printed = await asyncio.to_thread(run, "start_by_sql.py", *arguments, folder=tmp_path)
    assert printed.endswith("copy completed, thumbnail completed\n")
