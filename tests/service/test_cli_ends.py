"""How commands end: exit codes, closed pipes, wrong settings; without a traceback."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from longtake.db.errors import DatabaseFull, DatabaseOwned, DatabaseUnavailable, SchemaMismatch
from longtake.engine.errors import UnknownKind
from longtake.errors import InvalidActionArgument, LongtakeError, NotFound, SettingsError, StateConflict
from longtake.server.errors import CannotListen, InvalidApplication, ServerUnreachable
from longtake.terminal.failures import EXIT_CODES
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from tests.service.conftest import Commands
    from tests.service.processes import Place


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (NotFound, 1),
        (StateConflict, 1),
        (UnknownKind, 1),
        (SettingsError, 2),
        (InvalidActionArgument, 2),
        (InvalidApplication, 2),
        (CannotListen, 2),
        (DatabaseUnavailable, 3),
        (DatabaseOwned, 3),
        (DatabaseFull, 3),
        (ServerUnreachable, 3),
        (SchemaMismatch, 4),
    ],
)
def test_errors_end_with_their_exit_code(kind: type[LongtakeError], code: int) -> None:
    assert kind.exit_code == code


def test_the_help_names_every_command_and_exit_code(commands: Commands, place: Place) -> None:
    shown = commands.at(place)("--help")
    assert shown.code == 0
    words = " ".join(shown.output.split())
    for code, meaning in EXIT_CODES.items():
        assert f"{code}: {meaning}." in words
    for command in (
        "serve",
        "worker",
        "jobs",
        "lanes",
        "kinds",
        "schedules",
        "workers",
        "alerts",
        "migrate",
        "settings",
    ):
        assert f"│ {command} " in shown.output


def test_the_version_is_printed(commands: Commands, place: Place) -> None:
    assert commands.at(place)("version").output == commands("--version").output
    assert commands("version").output.startswith("longtake ")


@pytest.mark.parametrize("command", [("settings",), ("serve",), ("worker",), ("jobs", "list"), ("migrate", "status")])
def test_a_wrong_setting_is_named_with_an_example_by_every_command(
    commands: Commands, place: Place, command: tuple[str, ...]
) -> None:
    place.settings = {"LONGTAKE_PORT": "many", "LONGTAKE_LEASE_SECONDS": "0"}
    refused = commands.at(place)(*command)
    assert refused.code == 2
    assert "LONGTAKE_PORT=many: must be a whole number. Example: LONGTAKE_PORT=8484" in refused.errors
    assert "LONGTAKE_LEASE_SECONDS=0" in refused.errors
    assert "[SETTINGS_INVALID]" in refused.errors
    assert "Traceback" not in refused.errors


def test_settings_are_listed_with_where_they_come_from_and_secrets_masked(commands: Commands, place: Place) -> None:
    place.settings = {"LONGTAKE_DATABASE_URL": "postgresql://me:hunter2@localhost/x"}
    rows = {row["key"]: row for row in commands.at(place)("settings", "--json").json["settings"]}
    assert rows["database_url"]["source"] == "environment"
    assert rows["poll_seconds"]["source"] == "default"
    table = commands("settings")
    assert "LONGTAKE_POLL_SECONDS" in table.output
    assert "hunter2" not in table.output + str(rows)


@pytest.mark.parametrize(
    ("app", "message"),
    [
        ("nowhere:register", "There is no module 'nowhere'"),
        ("broken:register", "broken cannot be imported: ZeroDivisionError"),
        ("empty:register", "The module 'empty' has no function 'register'"),
        ("needs:register", "needs the module 'not_installed'"),
        ("empty", "'empty' is not of the form module:function"),
    ],
)
def test_an_app_that_cannot_be_used_is_named(commands: Commands, place: Place, app: str, message: str) -> None:
    (place.folder / "broken.py").write_text("1 / 0\n")
    (place.folder / "empty.py").write_text("")
    (place.folder / "needs.py").write_text("import not_installed\n")
    try:
        refused = commands.at(place)("worker", "--app", app)
    finally:
        for name in ("broken", "empty", "needs"):
            sys.modules.pop(name, None)
        if str(place.folder) in sys.path:
            sys.path.remove(str(place.folder))
    assert (refused.code, message in refused.errors) == (2, True), refused.errors
    assert not place.data.exists()


def test_a_terminal_that_knows_only_ascii_gets_escapes(place: Place) -> None:
    place.settings = {"LONGTAKE_STORAGE_URL": "file:größer", "PYTHONIOENCODING": "ascii"}
    shown = place.run("settings")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "file:gr\\xf6\\xdfer" in shown.stdout


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_closed_pipe_is_quiet(place: Place, options: list[str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "longtake", "settings", *options],
        cwd=place.folder, env=place.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=PATIENCE_SECONDS), said) == (141, b"")


def test_a_bug_is_a_sentence_and_its_traceback_is_there_for_those_who_ask(
    commands: Commands, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise ZeroDivisionError("password=hunter2")

    monkeypatch.setattr("longtake.cli.operator_access.load_settings", fail)
    short = commands.at(place)("jobs", "list")
    assert (short.code, "[UNEXPECTED]" in short.errors, "Traceback" in short.errors) == (1, True, False)
    monkeypatch.setenv("LONGTAKE_LOG_LEVEL", "debug")
    assert "Traceback" in commands("jobs", "list").errors
    assert "hunter2" not in short.errors + commands("jobs", "list").errors
