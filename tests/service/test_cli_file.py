"""Commands on a SQLite file that no server owns, and what they do when somebody else has it."""

from __future__ import annotations

import sqlite3
import threading
from typing import TYPE_CHECKING, Any

import pytest

from longtake import Database, Engine, JobKind, JobRequest, Transaction, open_database
from longtake.cli import jobs as jobs_commands
from longtake.db.migrate import known_migrations
from longtake.db.ownership import COMMAND, FileOwnership
from longtake.server.open_database import LOCATIONS, migrate_service
from tests.service.past import end_job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.service.conftest import Commands
    from tests.service.processes import Place


async def handler(_job: Any) -> Any:
    return None


@pytest.fixture
def path(place: Place) -> Path:
    """A database with all tables, unowned."""
    place.data.mkdir()
    migrate_service(f"sqlite:///{place.data}/longtake.db")
    return place.data / "longtake.db"


@pytest.fixture
def failed_jobs(path: Path) -> list[str]:
    """Ten failed jobs, six of one kind and four of another."""

    def fill(tx: Transaction) -> list[str]:
        engine.declare(tx)
        requests = [JobRequest("video" if number < 6 else "poster", {}) for number in range(10)]
        enqueued = [one.id for one in engine.enqueue_many(tx, requests)]
        for number, job_id in enumerate(enqueued):
            end_job(tx, job_id, "failed", "NO_ROOM" if number % 2 else "TIME_LIMIT")
        return enqueued

    for database in opened(path):
        engine = Engine(database, [JobKind("video", handler), JobKind("poster", handler)])
        return database.run_blocking(fill)
    raise AssertionError


def opened(path: Path) -> Iterator[Database]:
    database = open_database(f"sqlite:///{path}")
    try:
        yield database
    finally:
        database.close()


def test_without_a_database_nothing_is_made_and_it_is_said_how(commands: Commands, place: Place) -> None:
    refused = commands.at(place)("jobs", "list")
    assert refused.code == 3
    assert "There is no database at" in refused.errors
    assert "longtake migrate up" in refused.errors
    assert list(place.folder.iterdir()) == []


def test_tables_that_are_too_old_are_exit_code_4_until_migrated(commands: Commands, place: Place, path: Path) -> None:
    longtake = commands.at(place)
    assert longtake("migrate", "down", "base", "--yes").code == 0
    refused = longtake("jobs", "list")
    assert (refused.code, "[SCHEMA_MISMATCH]" in refused.errors, "longtake migrate up" in refused.errors) == (
        4,
        True,
        True,
    )
    status = longtake("migrate", "status", "--json")
    assert (status.code, status.json["up_to_date"]) == (4, False)
    assert len(status.json["pending"]) == len(known_migrations(LOCATIONS))
    assert longtake("migrate", "up").code == 0
    assert longtake("migrate", "status").code == 0
    assert longtake("jobs", "list").code == 0


def test_tables_of_a_newer_version_are_exit_code_4(commands: Commands, place: Place, path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO longtake_migrations VALUES ('engine_9999')")
    connection.close()
    for arguments in (("jobs", "list"), ("serve",), ("migrate", "status")):
        refused = commands.at(place)(*arguments)
        assert (refused.code, "9999" in refused.errors) == (4, True), (arguments, refused)


def test_going_down_needs_to_be_meant(commands: Commands, place: Place, path: Path) -> None:
    longtake = commands.at(place)
    refused = longtake("migrate", "down", "base")
    assert (refused.code, "--yes" in refused.errors) == (2, True)
    assert longtake("migrate", "status").code == 0
    assert longtake("migrate", "down", "no-such", "--yes").code == 2


def test_an_empty_list_says_whether_a_filter_left_all_out(commands: Commands, place: Place) -> None:
    longtake = commands.at(place)
    assert longtake("migrate", "up").code == 0
    assert longtake("jobs", "list").errors == "There are no jobs.\n"
    assert longtake("jobs", "list", "--kind", "posters").errors == "No jobs match.\n"
    assert longtake("alerts", "list").errors == "There are no unresolved alerts.\n"
    assert longtake("alerts", "list", "--state", "open").errors == "No alerts match.\n"


def test_a_file_that_is_no_database_is_named(commands: Commands, place: Place) -> None:
    place.data.mkdir()
    (place.data / "longtake.db").write_text("this is not a database, but it is long enough to look like one" * 20)
    for arguments in (("jobs", "list"), ("serve",), ("migrate", "up")):
        refused = commands.at(place)(*arguments)
        assert (refused.code, "longtake.db" in refused.errors) == (3, True), refused
        assert "Traceback" not in refused.errors


def test_failed_jobs_are_retried_by_kind_and_code(commands: Commands, place: Place, failed_jobs: list[str]) -> None:
    longtake = commands.at(place)
    retried = longtake("jobs", "retry", "--failed", "--kind", "video", "--error-code", "NO_ROOM", "--json")
    assert {one["id"] for one in retried.json["changed"]} == {failed_jobs[number] for number in (1, 3, 5)}
    waiting = longtake("jobs", "list", "--state", "ready", "--json").json["jobs"]
    assert len(waiting) == 3
    assert all(job["attempt"] == 0 for job in waiting)


def test_many_jobs_are_retried_in_pages_with_a_bar(
    commands: Commands, place: Place, failed_jobs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_commands, "PAGE", 4)
    retried = commands.at(place)("jobs", "retry", "--failed")
    assert retried.output == "10 jobs: each waits to run again.\n"
    assert "10/10" in retried.errors
    assert commands("jobs", "retry", "--failed").output == "No jobs were changed.\n"


def test_pages_of_a_list_say_how_to_go_on(commands: Commands, place: Place, failed_jobs: list[str]) -> None:
    longtake = commands.at(place)
    first = longtake("jobs", "list", "--limit", "6")
    assert first.errors == f"There are more: add --before {failed_jobs[4]}\n"
    second = longtake("jobs", "list", "--limit", "6", "--before", failed_jobs[4])
    assert second.errors == ""
    assert len(second.output.splitlines()) == 1 + 4


def test_without_a_worker_a_cancel_is_left_to_the_next_one(
    commands: Commands, place: Place, failed_jobs: list[str]
) -> None:
    longtake = commands.at(place)
    longtake("jobs", "retry", failed_jobs[0])
    cancelled = longtake("jobs", "cancel", failed_jobs[0])
    assert (cancelled.code, "to be cancelled by its worker" in cancelled.output) == (0, True)
    assert "being cancelled" in longtake("jobs", "list", "--state", "ready").output


def test_what_stands_in_a_job_cannot_steer_the_terminal(
    commands: Commands, place: Place, path: Path, failed_jobs: list[str]
) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE jobs_ended SET subject = char(27) || '[2J[red]' || char(7) || char(155)")
    connection.close()
    for arguments in (("jobs", "list"), ("jobs", "show", failed_jobs[0])):
        shown = commands.at(place)(*arguments)
        assert "\\x1b[2J[red]\\x07\\x9b" in shown.output
        assert "\x1b" not in shown.output


def test_a_command_waits_for_another_that_has_the_file(commands: Commands, place: Place, path: Path) -> None:
    ownership = FileOwnership(path, COMMAND)
    timer = threading.Timer(0.3, ownership.release)
    timer.start()
    assert commands.at(place)("jobs", "list").code == 0
    timer.join()


def test_a_worker_alone_takes_no_commands(
    commands: Commands, place: Place, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longtake.cli.operator_access.PATIENCE_SECONDS", 0.2)
    ownership = FileOwnership(path, "longtake worker")
    try:
        refused = commands.at(place)("jobs", "list")
    finally:
        ownership.release()
    assert (refused.code, "longtake worker" in refused.errors) == (3, True)
    assert "It takes no commands" in refused.errors
