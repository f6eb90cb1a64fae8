"""`longtake generate` and `longtake tasks` where a server runs: on this machine, or where one is logged in."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from longtake.server.server_file import ServerFile
from tests.service.cli_users import User, command, place_with
from tests.service.processes import Place, Server
from tests.wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from longtake.settings import Settings
    from tests.sandbox_process import SandboxProcess
    from tests.service.conftest import Commands

UNKNOWN_ID = "0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"


@pytest.fixture(scope="module")
def home(sandbox: SandboxProcess, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return place_with(sandbox, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def server(home: Place) -> Iterator[Server]:
    with home.server_here() as running:
        yield running


@pytest.fixture
def longtake(home: Place, server: Server, tmp_path: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch) -> User:
    """The user `local`, with credits, in a folder of their own beside the server's data folder."""
    server.operate("credits.grant", user_id="local", amount=100, reason="a test", by="the test")
    return User(Place(tmp_path, {**home.settings, "LONGTAKE_DATA_DIR": str(home.data)}), commands, monkeypatch)


def test_an_image_is_made_and_lies_in_the_working_folder(longtake: User) -> None:
    made = longtake("generate", "A red fox, in snow!")
    assert made.code == 0, made.errors
    (file,) = longtake.pictures()
    assert re.fullmatch(r"a-red-fox-in-snow-[0-9a-f]{8}\.png", file.name)
    assert made.output == f"{file.name}\n"
    with Image.open(file) as picture:
        assert picture.format == "PNG"
    # Not a terminal: plain lines, no bar, nothing that steers one.
    assert "completed" in made.errors
    assert "nano-banana: 4 credits." in made.errors
    assert "\x1b" not in made.output + made.errors


def test_json_is_the_task_and_its_files(longtake: User) -> None:
    made = longtake("generate", "a fox", "--model", "nano-banana", "--parameter", "aspect_ratio=16:9", "--json")
    task = made.json
    assert (task["status"], task["parameters"]["aspect_ratio"]) == ("completed", "16:9")
    assert [longtake.folder / name for name in task["files"]] == longtake.pictures()
    assert task["results"][0]["save_state"] == "success"


def test_the_result_goes_where_it_is_wanted_and_replaces_nothing(longtake: User) -> None:
    named = longtake("generate", "a fox", "--output", "fox.png")
    assert (named.code, named.output) == (0, "fox.png\n")
    before = (longtake.folder / "fox.png").read_bytes()
    again = longtake("generate", "another fox", "--output", "fox.png")
    assert (again.code, "already exists" in again.errors) == (2, True)
    assert (longtake.folder / "fox.png").read_bytes() == before
    foldered = longtake("generate", "a fox", "--output", "new/pictures")
    assert (foldered.code, len(list((longtake.folder / "new/pictures").iterdir()))) == (0, 1)
    # Followed again, what is there already is recognised; a file of that name with other bytes stays as it is.
    file = next((longtake.folder / "new/pictures").iterdir())
    task_id = longtake.tasks()[0]["id"]
    assert longtake("tasks", "follow", task_id, "--output", "new/pictures").output == foldered.output
    file.write_bytes(b"mine")
    beside = longtake("tasks", "follow", task_id, "--output", "new/pictures")
    assert beside.output.strip().endswith(f"{file.stem}-2.png")
    assert file.read_bytes() == b"mine"


def test_a_result_that_cannot_be_written_is_not_lost(longtake: User) -> None:
    (longtake.folder / "a-file").write_text("mine")
    refused = longtake("generate", "a fox", "--output", "a-file/fox.png")
    assert (refused.code, refused.output) == (2, "")
    words = " ".join(refused.errors.replace("│", " ").split())
    assert f"`longtake tasks follow {longtake.tasks()[0]['id']} --output DIR` fetches it again" in words
    assert longtake("tasks", "follow", longtake.tasks()[0]["id"], "--output", "fox.png").output == "fox.png\n"


def test_the_viewer_is_opened_when_wanted(longtake: User) -> None:
    viewer = longtake.folder / "bin" / "xdg-open"
    viewer.parent.mkdir()
    viewer.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {longtake.folder}/opened\n')
    viewer.chmod(0o755)
    longtake.place.settings["PATH"] = f"{viewer.parent}:{os.environ['PATH']}"
    with command(longtake.place, "generate", "a fox", "--open") as running:
        code, output, errors = running.end()
    assert code == 0, errors
    wait_for((longtake.folder / "opened").exists, "the viewer")
    assert (longtake.folder / "opened").read_text() == output.strip()


def test_without_waiting_the_id_is_printed_and_can_be_followed(longtake: User) -> None:
    begun = longtake("generate", "a fox", "--no-wait")
    second = longtake("generate", "another fox", "--no-wait", "--json")
    ids = [begun.output.strip(), second.json["id"]]
    followed = longtake("tasks", "follow", *ids)
    assert (followed.code, len(longtake.pictures()), len(followed.output.splitlines())) == (0, 2, 2)
    shown = longtake("tasks", "follow", *ids, "--json")
    assert [task["id"] for task in shown.json["tasks"]] == ids


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["a fox", "--model", "nobody"], 1, ["MODEL_UNKNOWN", "longtake models"]),
        (["a fox", "--type", "song"], 2, ["image or video"]),
        (["a fox", "--parameter", "aspect_ratio"], 2, ["NAME=VALUE"]),
        (["a fox", "--parameter", "aspect_ratio=7:1"], 1, ["PARAMETER_INVALID"]),
        (["a fox", "--parameter", "speed=1"], 1, ["PARAMETER_UNKNOWN", "aspect_ratio"]),
        (["   "], 1, ["PROMPT_INVALID"]),
        (["a fox", "--reference", "nowhere.png"], 2, ["nowhere.png"]),
        (["a fox", "--model", "nano-banana", "--type", "video"], 1, ["MODEL_UNKNOWN"]),
    ],
)
def test_what_cannot_be_made_is_refused_with_what_to_do(
    longtake: User, arguments: list[str], code: int, words: list[str]
) -> None:
    refused = longtake("generate", *arguments)
    assert refused.code == code
    assert all(word in refused.errors for word in words), refused.errors
    assert (refused.output, "Traceback" in refused.errors) == ("", False)


def test_a_task_that_fails_says_why_and_costs_nothing(longtake: User, sandbox: SandboxProcess) -> None:
    before = longtake("credits", "balance", "--json").json
    failed = longtake("generate", "a fox [fail]", "--json")
    task = failed.json
    assert (failed.code, task["status"], task["files"]) == (1, "failed", [])
    assert f"[provider's code {task['error']['code']}]" in failed.errors
    assert f"longtake tasks retry {task['id']}" in failed.errors
    assert longtake("credits", "balance", "--json").json == before
    again = longtake("tasks", "retry", task["id"], "--json").json
    assert (again["retry_of"], again["prompt"]) == (task["id"], "a fox [fail]")


def test_whoever_is_refused_for_the_prompt_is_told_to_change_it(longtake: User) -> None:
    refused = longtake("generate", "a fox [blocked]")
    assert (refused.code, "change it" in refused.errors, "tasks retry" in refused.errors) == (1, True, False)


def test_a_task_is_known_by_the_end_of_its_id(longtake: User) -> None:
    task_id = longtake("generate", "a fox", "--no-wait").output.strip()
    assert longtake("tasks", "show", task_id[-8:], "--json").json["id"] == task_id
    assert longtake("tasks", "follow", task_id[-8:].upper(), task_id).code == 0
    ended = longtake("tasks", "cancel", task_id[-6:])
    assert (ended.code, "[STATE_CONFLICT]" in ended.errors, "can be cancelled" in ended.errors) == (1, True, True)
    for wrong in ("ffffffff", "f", "tomorrow"):
        refused = longtake("tasks", "retry", wrong)
        assert (refused.code, "[NOT_FOUND]" in refused.errors, "longtake tasks list" in refused.errors) == (
            1,
            True,
            True,
        )


def test_too_few_credits_are_refused_with_the_command_that_gives_some(longtake: User, server: Server) -> None:
    balance = longtake("credits", "balance", "--json").json
    server.operate("credits.withdraw", user_id="local", amount=balance["available"], reason="a test", by="the test")
    refused = longtake("generate", "a fox")
    assert refused.code == 1
    assert "INSUFFICIENT_CREDITS" in refused.errors
    assert "longtake credits grant local" in refused.errors
    assert "You have 0 credits" in longtake("credits", "balance").output


def test_tasks_are_listed_shown_and_cancelled(longtake: User, sandbox: SandboxProcess) -> None:
    sandbox.settings(seconds={"image": 60})
    try:
        task_id = longtake("generate", "a fox to cancel", "--no-wait").output.strip()
        listed = longtake("tasks", "list", "--status", "pending", "--status", "running", "--limit", "1")
        assert task_id in listed.output
        shown = longtake("tasks", "show", task_id)
        assert "a fox to cancel" in shown.output
        assert longtake("tasks", "cancel", task_id).output == f"Cancelled: {task_id}.\n"
    finally:
        sandbox.settings(seconds={"image": 0.3})
    refused = longtake("tasks", "follow", task_id)
    assert (refused.code, "[CANCELLED]" in refused.errors) == (1, True)
    assert longtake("tasks", "show", task_id, "--json").json["status"] == "cancelled"
    more = longtake("tasks", "list", "--limit", "1")
    assert f"--before {task_id}" in more.errors
    assert task_id not in longtake("tasks", "list", "--before", task_id).output
    missing = longtake("tasks", "follow", UNKNOWN_ID)
    assert (missing.code, "[NOT_FOUND]" in missing.errors) == (1, True)


def test_models_are_listed(longtake: User) -> None:
    listed = longtake("models", "--type", "image")
    assert re.search(r"^nano-banana +image +4 +usable", listed.output, flags=re.MULTILINE)
    assert re.search(r"^gemini-flash-image +image +\d+ +no key", listed.output, flags=re.MULTILINE)
    assert "kling" not in listed.output
    assert "--json shows the allowed values" in listed.errors


def test_one_logs_in_and_out(home: Place, server: Server, longtake: User, sandbox: SandboxProcess) -> None:
    token = longtake("token", "--user", "ada").output.strip()
    server.operate("credits.grant", user_id="ada", amount=10, reason="a test", by="the test")
    away = User(place_with(sandbox, longtake.folder), longtake.commands, longtake.monkeypatch)
    longtake.monkeypatch.setattr(sys, "stdin", io.StringIO(f"{token}\n"))
    entered = away("login", "--server", server.url, "--token", "-")
    assert (entered.code, entered.output) == (0, f"You are ada at {server.url} (you are logged in there).\n")
    file = away.folder / "config/longtake/login.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert away("login", "--json").json["user"] == "ada"
    assert "You have 10 credits" in away("credits", "balance").output
    wrong = away("login", "--token", "wrong")
    assert (wrong.code, "[UNAUTHORIZED]" in wrong.errors) == (1, True)
    # What works is kept.
    made = away("generate", "a fox")
    assert (made.code, f"At {server.url} as ada." in made.errors) == (0, True)
    # Nothing was started or made here besides.
    assert not away.place.data.exists()
    assert (away("logout").output, file.exists()) == ("You are logged out.\n", False)
    assert away("logout").output == "You were not logged in.\n"
    assert (away("login", "--token", "x").code, token in str(away("login", "--token", "x"))) == (2, False)


def test_the_environment_goes_before_everything(server: Server, longtake: User) -> None:
    token = longtake("token", "--user", "bob").output.strip()
    longtake.place.settings["LONGTAKE_SERVER"] = server.url
    assert "no token" in longtake("login").errors
    longtake.place.settings["LONGTAKE_TOKEN"] = token
    assert longtake("login").output == f"You are bob at {server.url} (LONGTAKE_SERVER).\n"
    assert token not in longtake("settings").output
    longtake.place.settings["LONGTAKE_TOKEN"] = "of two words"
    refused = longtake("login")
    assert (refused.code, "LONGTAKE_TOKEN" in refused.errors, "words" in refused.errors) == (2, True, False)
    longtake.place.settings["LONGTAKE_TOKEN"] = "wrong"
    refused = longtake("generate", "a fox")
    assert (refused.code, "[UNAUTHORIZED]" in refused.errors, "LONGTAKE_TOKEN" in refused.errors) == (1, True, True)


def test_a_token_of_the_environment_goes_to_no_server_that_only_a_folder_names(server: Server, longtake: User) -> None:
    token = longtake("token", "--user", "bob").output.strip()
    file = longtake.folder / "longtake.toml"
    file.write_text(f'server = "{server.url}"\ntoken = "{token}"\n')
    assert "You are bob" in longtake("login").output, "both are of the folder"
    file.write_text(f'server = "{server.url}"\n')
    longtake.place.settings["LONGTAKE_TOKEN"] = token
    refused = longtake("login")
    assert (refused.code, "longtake.toml names" in refused.errors) == (2, True)
    assert token not in refused.errors
    longtake.place.settings["LONGTAKE_SERVER"] = server.url
    assert longtake("login").code == 0


def test_nor_to_one_elsewhere_that_a_data_folder_names(longtake: User, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def elsewhere(_settings: Settings) -> Iterator[tuple[ServerFile, bool]]:
        yield ServerFile("http://192.0.2.1:9", "x", 1), False

    monkeypatch.setattr("longtake.cli.server.local_server", elsewhere)
    longtake.place.settings["LONGTAKE_TOKEN"] = "a-token"
    refused = longtake("login")
    assert (refused.code, "server.json names" in refused.errors) == (2, True)


@pytest.mark.parametrize("address", ["media.example.com", "http://media.example.com", "https://u:p@example.com"])
def test_a_token_is_not_sent_just_anywhere(longtake: User, address: str) -> None:
    refused = longtake("login", "--server", address, "--token", "x")
    assert (refused.code, "--server" in refused.errors) == (2, True)


def test_logging_in_at_a_wrong_address_is_refused_at_once(longtake: User) -> None:
    refused = longtake("login", "--server", "http://127.0.0.1:9", "--token", "x")
    assert (refused.code, "[SERVER_UNREACHABLE]" in refused.errors, "trying" in refused.errors) == (3, True, False)
    assert not (longtake.folder / "config").exists()
