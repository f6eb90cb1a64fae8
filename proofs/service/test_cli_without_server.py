"""Commands where no server runs: one is started for them, and what they asked for is whole when they end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.sandbox_process import SandboxProcess, running_sandbox
from tests.service.cli_users import place_with, started_server
from tests.service.conftest import TITLES
from tests.service.test_cli_assets import source
from tests.service.test_cli_catalogue import catalogue_place
from tests.service.test_cli_runs import STORY, scene_place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["source"]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    with running_sandbox(titles=TITLES, seconds={"image": 0.3}) as running:
        yield running


@pytest.fixture(scope="module")
def truth(sandbox: SandboxProcess) -> list[dict[str, Any]]:
    return sandbox.titles()


@pytest.mark.slow
def test_where_no_server_runs_a_title_is_whole_when_the_command_ends(
    sandbox: SandboxProcess, tmp_path: Path, truth: list[dict[str, Any]]
) -> None:
    known = next(one for one in truth if one["kind"] == "exact")
    alone = catalogue_place(sandbox, tmp_path)
    ended = alone.run("catalogue", "add", "--bangumi", str(known["bangumi_id"]), "--json")
    assert ended.returncode == 0, ended.stderr
    title = json.loads(ended.stdout)["title"]
    assert (title["poster_state"], title["tmdb_id"]) == ("stored", known["tmdb_id"])
    assert started_server(alone) is None


@pytest.mark.slow
def test_without_a_key_it_is_said_how_to_set_one(sandbox: SandboxProcess, tmp_path: Path) -> None:
    alone = catalogue_place(sandbox, tmp_path, LONGTAKE_TMDB_API_KEY="")
    ended = alone.run("catalogue", "status")
    assert "none, so no ids are looked up: `longtake secrets set tmdb_api_key`" in ended.stdout, ended.stderr


@pytest.mark.slow
def test_where_no_server_runs_a_file_is_there_when_the_command_ends(
    sandbox: SandboxProcess, tmp_path: Path, source: str
) -> None:
    alone = place_with(sandbox, tmp_path)
    ended = alone.run("assets", "add", f"{source}/alone.png", "--json")
    assert ended.returncode == 0, ended.stderr
    [asset] = json.loads(ended.stdout)["added"]
    assert (asset["save_state"], asset["thumbnail_state"]) == ("success", "completed")
    assert started_server(alone) is None


@pytest.mark.slow
def test_where_no_server_runs_a_run_is_whole_when_the_command_ends(sandbox: SandboxProcess, tmp_path: Path) -> None:
    alone = scene_place(sandbox, tmp_path)
    ended = alone.run("runs", "create", *STORY, "--no-wait")
    assert ended.returncode == 0, ended.stderr
    assert "3 of 3 images; completed" in ended.stdout
    assert started_server(alone) is None
