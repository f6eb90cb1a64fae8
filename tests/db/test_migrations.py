"""Migrations: up, down and up again with data inside; all or nothing; never two at once."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from longtake import migrate_down, migrate_up, open_database
from longtake.db import migrate
from longtake.db.migrate import _config, _connection, latest_migration, migration_status, require_current_schema
from longtake.engine.events import append_event, read_events
from longtake.errors import DatabaseOwned, SchemaMismatch
from tests.databases import OWNER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtake import Transaction
    from tests.databases import PostgresqlServer

ALL_TABLES = {
    "alerts", "events", "job_attempts", "job_kinds", "jobs", "jobs_ended", "lanes", "schedules", "workers",
    "api_keys", "secrets",
    "credit_balances", "credit_entries", "credit_holds", "credit_transfers",
    "conversations", "messages", "assets",
    "tasks", "submissions", "idempotency_keys",
    "scene_runs", "scenes", "image_jobs",
    "titles", "posters", "tmdb_years", "tmdb_shows",
    "asset_facts", "asset_pictures", "events_forgotten", "webhook_cursor", "webhook_deliveries", "webhook_endpoints",
}  # fmt: skip
MIGRATIONS = sorted(file.name[:4] for file in (Path(migrate.__file__).parent / "migrations/versions").glob("[0-9]*.py"))


@pytest.fixture
def empty_postgresql_url(postgresql_server: PostgresqlServer) -> Iterator[str]:
    name = f"empty_{uuid.uuid4().hex}"
    postgresql_server._sql(f"CREATE DATABASE {name} OWNER {OWNER}")
    url = postgresql_server.url(name)
    yield url
    postgresql_server.drop_database(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without any tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'folder' / 'empty.db'}"
    url: str = request.getfixturevalue("empty_postgresql_url")
    return url


def tables(url: str) -> set[str]:
    with _connection(url) as connection:
        return set(inspect(connection).get_table_names()) - {"alembic_version", "test_clock"}


def execute(url: str, statement: str) -> None:
    with _connection(url) as connection:
        connection.execute(text(statement))


def write(tx: Transaction) -> None:
    tx.execute(text("INSERT INTO lanes (name) VALUES ('posters')"))
    tx.execute(text("INSERT INTO jobs (kind) VALUES ('outside')"))
    append_event(tx, "told", data={"any": "thing"})


def test_up_makes_the_tables_and_again_changes_nothing(empty_url: str) -> None:
    assert migrate_up(empty_url).up_to_date
    assert tables(empty_url) == ALL_TABLES
    database = open_database(empty_url)
    database.run_blocking(write)
    database.close()
    status = migrate_up(empty_url)
    assert status.up_to_date
    assert status.pending == []
    database = open_database(empty_url)
    assert database.run_blocking(lambda tx: tx.execute(text("SELECT kind FROM jobs")).scalar_one()) == "outside"
    database.close()


def test_down_and_up_again_with_data_inside(empty_url: str) -> None:
    migrate_up(empty_url)
    for _ in range(2):
        database = open_database(empty_url)
        database.run_blocking(write)
        database.close()
        status = migrate_down(empty_url)
        assert status.current is None
        assert len(status.pending) == len(MIGRATIONS)
        assert tables(empty_url) == set()
        migrate_up(empty_url)
        assert tables(empty_url) == ALL_TABLES
    database = open_database(empty_url)
    assert database.run_blocking(read_events) == []
    database.run_blocking(write)
    database.close()


def test_a_failing_migration_leaves_nothing_behind(empty_url: str) -> None:
    migrate_up(empty_url)
    migrate_down(empty_url)
    execute(empty_url, "CREATE TABLE alerts (unexpected integer)")
    with pytest.raises(Exception, match="alerts"):
        migrate_up(empty_url)
    assert tables(empty_url) == {"alerts"}
    execute(empty_url, "DROP TABLE alerts")
    assert migrate_up(empty_url).up_to_date


def test_a_database_without_tables_is_refused(empty_url: str) -> None:
    assert migration_status(empty_url).current is None
    with pytest.raises(SchemaMismatch, match="no migration at all") as raised:
        require_current_schema(empty_url)
    assert "migrate up" in raised.value.hint
    migrate_up(empty_url)
    require_current_schema(empty_url)


def test_a_database_from_the_future_is_refused(database_url: str) -> None:
    execute(database_url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaMismatch, match="9999") as raised:
        require_current_schema(database_url)
    assert "newer version" in raised.value.hint


def test_asking_for_the_status_makes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "absent.db"
    assert not migration_status(f"sqlite:///{path}").up_to_date
    assert not path.exists()


def test_an_open_sqlite_file_is_not_migrated_under_its_owner(sqlite_url: str) -> None:
    database = open_database(sqlite_url, owner="longtake serve")
    for change in (migrate_up, migrate_down):
        with pytest.raises(DatabaseOwned, match="longtake serve"):
            change(sqlite_url)
    assert migration_status(sqlite_url).up_to_date
    database.close()


def test_two_processes_migrating_at_once(empty_postgresql_url: str) -> None:
    code = "import sys; from longtake import migrate_up; print(migrate_up(sys.argv[1]).current)"
    command = [sys.executable, "-c", code, empty_postgresql_url]
    with psycopg.connect(empty_postgresql_url) as connection:
        # Both are let go at the same moment.
        connection.execute("SELECT pg_advisory_lock(7016511206)")
        both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        while all(process.poll() is None for process in both):
            if connection.execute(waiting).fetchall() == [(2,)]:
                break
    answers = [process.communicate(timeout=60) for process in both]
    assert [answer[0] for answer in answers] == [f"{MIGRATIONS[-1]}\n"] * 2, answers
    assert tables(empty_postgresql_url) == ALL_TABLES


def test_the_roles_outlive_the_tables(empty_postgresql_url: str) -> None:
    migrate_up(empty_postgresql_url)
    migrate_down(empty_postgresql_url)
    with psycopg.connect(empty_postgresql_url) as connection:
        roles = connection.execute("SELECT rolname FROM pg_roles WHERE rolname LIKE 'longtake%'").fetchall()
    assert {("longtake_api",), ("longtake_engine",)} <= set(roles)


@pytest.mark.parametrize("name", ["with space.db", "percent%20sign.db", "question?mark.db", "ümlaut.db"])
def test_a_strange_file_name_is_the_same_file_for_migrations_and_for_the_program(tmp_path: Path, name: str) -> None:
    url = f"sqlite:///{tmp_path / name}"
    migrate_up(url)
    database = open_database(url)
    database.run_blocking(write)
    database.close()
    assert (tmp_path / name).exists()


def test_the_newest_file_is_the_migration_that_alembic_calls_head() -> None:
    assert latest_migration() == ScriptDirectory.from_config(_config(None)).get_current_head()
