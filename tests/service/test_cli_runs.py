"""`longtake runs`: runs of scenes by command on a server that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from longtake.cli import runs
from tests.service.cli_users import User, place_with
from tests.service.processes import Place, Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.sandbox_process import SandboxProcess
    from tests.service.conftest import Commands

UNKNOWN_ID = "0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"
STORY = ("a fox wakes", "the fox runs", "the fox sleeps")


def scene_place(sandbox: SandboxProcess, folder: Path) -> Place:
    known = {"LONGTAKE_GEMINI_API_KEY": sandbox.key, "LONGTAKE_GEMINI_BASE_URL": sandbox.gemini_url}
    pace = {"LONGTAKE_SCENES_PER_MINUTE": "1000", "LONGTAKE_SCENES_AT_ONCE": "4"}
    # Images of a cancelled run are still asked for when the server stops.
    return place_with(sandbox, folder, **known, **pace, LONGTAKE_STOP_GRACE_SECONDS="0")


@pytest.fixture(scope="module")
def home(sandbox: SandboxProcess, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return scene_place(sandbox, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def server(home: Place) -> Iterator[Server]:
    with home.server_here() as running:
        running.operate("credits.grant", user_id="local", amount=1000, reason="a test", by="the test")
        yield running


@pytest.fixture
def longtake(home: Place, server: Server, tmp_path: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch) -> User:
    assert server.url
    return User(Place(tmp_path, {**home.settings, "LONGTAKE_DATA_DIR": str(home.data)}), commands, monkeypatch)


def test_a_run_is_made_watched_listed_and_shown(longtake: User) -> None:
    made = longtake("runs", "create", *STORY, "--title", "A fox's day", "--json")
    assert made.code == 0, made.errors
    run = made.json
    assert (run["status"], run["total"]["completed"], run["total"]["percent"]) == ("completed", 3, 100)
    for number in (1, 2, 3):
        assert f"scene {number}: completed" in made.errors
    listed = longtake("runs", "list")
    assert f"{run['id']}  completed  3 of 3" in listed.output
    shown = longtake("runs", "show", run["id"])
    assert "3 of 3 images; completed" in shown.output
    assert all(prompt in shown.output for prompt in STORY)
    end = run["id"][-8:]
    assert longtake("runs", "show", end, "--json").json["id"] == run["id"]
    again = longtake("runs", "advance", end)
    assert (again.code, again.output) == (0, "run_completed: 0 queued.\n")
    watched = longtake("runs", "watch", end, "--json")
    assert (watched.code, watched.json["status"]) == (0, "completed")


def test_a_scene_that_fails_is_told_with_its_reason_and_made_again_with_other_words(longtake: User) -> None:
    made = longtake("runs", "create", STORY[0], "a fox [blocked]", STORY[2])
    assert made.code == 1
    assert "2 of 3 images; partial" in made.output
    assert "scene 2: failed: " in made.errors
    assert "PROHIBITED_CONTENT]" in made.errors
    run = longtake("runs", "list", "--limit", "1", "--json").json["runs"][0]
    mended = longtake("runs", "regenerate", run["id"][-8:], "2", "--prompt", "a fox that may be seen", "--json")
    assert (mended.code, mended.json["status"]) == (0, "completed"), mended.errors


def test_what_is_under_way_is_cancelled_and_then_deleted(longtake: User, sandbox: SandboxProcess) -> None:
    sandbox.settings(seconds={"image": 20})
    try:
        begun = longtake("runs", "create", *STORY, "--no-wait")
        run_id = begun.output.strip()
        refused = longtake("runs", "delete", run_id, "--yes")
        assert (refused.code, "[STATE_CONFLICT]" in refused.errors) == (1, True)
        assert "longtake runs cancel" in refused.errors
        assert longtake("runs", "cancel", run_id[-8:]).output == f"{run_id} is cancelled.\n"
        assert longtake("runs", "delete", run_id[-8:], "--yes").output == f"Deleted: {run_id}.\n"
    finally:
        sandbox.settings(seconds={"image": 0.3})
    gone = longtake("runs", "show", run_id)
    assert (gone.code, "[NOT_FOUND]\n  `longtake runs list` lists your runs." in gone.errors) == (1, True)


def test_ctrl_c_says_which_run_goes_on_and_how_to_watch_it(longtake: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "watch_run", interrupt)
    ended = longtake("runs", "create", *STORY)
    run = longtake("runs", "list", "--limit", "1", "--json").json["runs"][0]
    said = f"Only the waiting has ended. The server continues; `longtake runs watch {run['id']}` waits again.\n"
    assert (ended.code, ended.errors) == (130, said)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["create", "one", "two"], "SCENE_COUNT_INVALID"),
        (["create", "one", " ", "three"], "PROMPT_INVALID"),
        (["create", *STORY, "--model", "nothing"], "MODEL_UNKNOWN"),
        (["create", *STORY, "--model", "nano-banana"], "MODEL_NOT_FOR_SCENES"),
        (["advance", UNKNOWN_ID], "NOT_FOUND"),
        (["watch", "no-id"], "NOT_FOUND"),
        (["show", "no"], "NOT_FOUND"),
    ],
)
def test_what_cannot_be_is_told_clearly(longtake: User, arguments: list[str], code: str) -> None:
    ended = longtake("runs", *arguments)
    assert (ended.code, f"[{code}]" in ended.errors) == (1, True), ended.errors
