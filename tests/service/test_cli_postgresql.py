"""Commands on PostgreSQL: straight to the database, beside any number of workers."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest

from longtake import migrate_down
from longtake.server.open_database import LOCATIONS
from tests.service.processes import Place
from tests.service.slow_jobs import APP, ROOT, enqueue, sign
from tests.wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.service.conftest import Commands


@pytest.fixture
def place(tmp_path: Path, postgresql_url: str) -> Place:
    return Place(tmp_path, {"LONGTAKE_DATABASE_URL": postgresql_url, "PYTHONPATH": str(ROOT)})


@contextmanager
def worker(place: Place, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "longtake", "worker", *arguments],
        cwd=place.folder, env=place.environment, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def test_a_running_job_is_cancelled_from_the_command_line_and_retried(
    commands: Commands, place: Place, postgresql_url: str
) -> None:
    longtake = commands.at(place)
    job_id = enqueue(postgresql_url, place)
    with worker(place, *APP) as first, worker(place, *APP) as second:
        wait_for(sign(place).exists, "the job's start")
        wait_for(lambda: len(longtake("workers", "list", "--json").json["workers"]) == 2, "both workers")
        assert "to be cancelled" in longtake("jobs", "cancel", job_id).output
        wait_for(lambda: longtake("jobs", "show", job_id, "--json").json["job"]["state"] == "cancelled", "the cancel")
        refused = longtake("jobs", "cancel", job_id)
        assert (refused.code, "[STATE_CONFLICT]" in refused.errors) == (1, True)
        sign(place).unlink()
        assert longtake("jobs", "retry", job_id).code == 0
        wait_for(sign(place).exists, "the job's second start")
        for process in (first, second):
            process.send_signal(signal.SIGTERM)
        # The job runs on in one of them for its grace; the other has nothing to wait for.
        wait_for(lambda: first.poll() == 0 or second.poll() == 0, "an orderly stop")


def test_lists_and_changes_go_to_the_database(commands: Commands, place: Place, postgresql_url: str) -> None:
    longtake = commands.at(place)
    job_id = enqueue(postgresql_url, place, "quick")
    assert [job["id"] for job in longtake("jobs", "list", "--json").json["jobs"]] == [job_id]
    for what in ("lanes", "kinds", "schedules", "workers", "alerts"):
        assert longtake(what, "list").code == 0
    assert longtake("kinds", "pause", "quick").code == 0
    assert longtake("schedules", "run", "engine.prune").code == 0
    assert longtake("alerts", "resolve", job_id).code == 1


def test_old_tables_are_refused_with_the_command_to_run_and_left_alone(
    commands: Commands, place: Place, postgresql_url: str
) -> None:
    migrate_down(postgresql_url, locations=LOCATIONS)
    longtake = commands.at(place)
    for arguments in (("serve",), ("worker",), ("jobs", "list")):
        refused = longtake(*arguments)
        assert (refused.code, "[SCHEMA_MISMATCH]" in refused.errors) == (4, True), refused
        assert "longtake migrate up" in refused.errors
    with psycopg.connect(postgresql_url) as connection:
        assert connection.execute("SELECT to_regclass('jobs')").fetchone() == (None,)
    assert longtake("migrate", "up").code == 0
    assert longtake("jobs", "list").code == 0


def test_a_server_that_is_not_there_is_exit_code_3(commands: Commands, tmp_path: Path) -> None:
    place = Place(tmp_path, {"LONGTAKE_DATABASE_URL": "postgresql://me:hunter2@127.0.0.1:1/nothing"})
    for arguments in (("jobs", "list"), ("serve",), ("migrate", "up")):
        refused = commands.at(place)(*arguments)
        assert (refused.code, "[DATABASE_UNAVAILABLE]" in refused.errors) == (3, True), refused
        assert "hunter2" not in refused.errors
