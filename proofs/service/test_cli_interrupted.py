"""Commands that are interrupted while they wait, and one whose server does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sandbox_process import SandboxProcess, running_sandbox
from tests.service.cli_users import User, command, place_with
from tests.service.processes import Place, Server
from tests.service.test_cli_runs import STORY, scene_place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.service.conftest import Commands


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    with running_sandbox(seconds={"image": 0.3}) as running:
        yield running


@pytest.fixture(scope="module")
def home(sandbox: SandboxProcess, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return scene_place(sandbox, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def server(home: Place) -> Iterator[Server]:
    with home.server() as running:
        running.operate("credits.grant", user_id="local", amount=1000, reason="a test", by="the test")
        yield running


@pytest.fixture
def longtake(home: Place, server: Server, tmp_path: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch) -> User:
    assert server.url
    return User(Place(tmp_path, {**home.settings, "LONGTAKE_DATA_DIR": str(home.data)}), commands, monkeypatch)


@pytest.mark.slow
def test_after_ctrl_c_watching_is_taken_up_again(longtake: User, sandbox: SandboxProcess) -> None:
    sandbox.settings(seconds={"image": 2})
    try:
        with command(longtake.place, "runs", "create", *STORY) as running:
            while "being made" not in running.line():
                pass
            code, _output, errors = running.interrupt()
        assert code == 130, errors
    finally:
        sandbox.settings(seconds={"image": 0.3})
    run = longtake("runs", "list", "--limit", "1", "--json").json["runs"][0]
    assert f"The server continues; `longtake runs watch {run['id']}` waits again." in errors
    watched = longtake("runs", "watch", run["id"], "--json")
    assert (watched.code, watched.json["status"]) == (0, "completed")


def test_ctrl_c_ends_the_waiting_and_not_the_task(longtake: User, sandbox: SandboxProcess) -> None:
    sandbox.faults("running", route="query")
    try:
        with command(longtake.place, "generate", "a slow fox") as running:
            # The first line says that it waits.
            first = running.line()
            code, output, errors = running.interrupt()
    finally:
        sandbox.clear_faults()
    task = longtake.tasks()[0]
    assert (code, output, task["prompt"]) == (130, "", "a slow fox")
    assert f"The server continues; `longtake tasks follow {task['id']}` waits again." in first + errors
    assert "Traceback" not in errors
    followed = longtake("tasks", "follow", task["id"])
    assert (followed.code, len(longtake.pictures())) == (0, 1)


def test_a_server_that_is_away_is_said(sandbox: SandboxProcess, tmp_path: Path) -> None:
    away = place_with(sandbox, tmp_path, LONGTAKE_SERVER="http://127.0.0.1:9", LONGTAKE_TOKEN="x")
    with command(away, "generate", "a fox") as running:
        assert running.line() == "http://127.0.0.1:9 does not answer; trying for 19 s more.\n"
        code, _output, errors = running.end()
    assert (code, "[SERVER_UNREACHABLE]" in errors, "127.0.0.1:9" in errors) == (3, True, True)
    # Nothing was sent that could have been taken.
    assert "longtake tasks" not in errors
