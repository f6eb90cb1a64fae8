"""Migrations: up, down and up again with data inside; all or nothing; never two at once; each package by itself."""

from __future__ import annotations

import subprocess
import sys
import uuid
from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import inspect, text

from longtake import migrate_down, migrate_up, open_database
from longtake.db.errors import DatabaseOwned, SchemaMismatch
from longtake.db.migrate import _connection, known_migrations, migration_status, require_current_schema
from longtake.engine.events import append_event, read_events
from longtake.server.open_database import LOCATIONS, migrate_service
from tests.databases import OWNER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from longtake import Transaction
    from tests.databases import PostgresqlServer

ENGINE_TABLES = {
    "events", "events_forgotten", "job_attempts", "job_kinds", "jobs", "jobs_ended", "lanes", "schedules", "workers",
}  # fmt: skip
ALL_TABLES = ENGINE_TABLES | {
    "alerts", "api_keys", "secrets",
    "credit_balances", "credit_entries", "credit_holds", "credit_transfers",
    "conversations", "messages", "assets",
    "tasks", "submissions", "idempotency_keys",
    "scene_runs", "scenes", "image_jobs",
    "titles", "posters", "tmdb_years", "tmdb_shows",
    "asset_facts", "asset_pictures", "webhook_cursor", "webhook_deliveries", "webhook_endpoints",
}  # fmt: skip


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
        return set(inspect(connection).get_table_names()) - {"longtake_migrations", "test_clock"}


def execute(url: str, statement: str) -> None:
    with _connection(url) as connection:
        connection.execute(text(statement))


def write(tx: Transaction) -> None:
    tx.execute(text("INSERT INTO lanes (name) VALUES ('posters')"))
    tx.execute(text("INSERT INTO jobs (kind) VALUES ('outside')"))
    append_event(tx, "told", data={"any": "thing"})


def test_up_makes_the_tables_and_again_changes_nothing(empty_url: str) -> None:
    assert migrate_service(empty_url).up_to_date
    assert tables(empty_url) == ALL_TABLES
    database = open_database(empty_url)
    database.run_blocking(write)
    database.close()
    status = migrate_service(empty_url)
    assert status.up_to_date
    assert status.pending == []
    database = open_database(empty_url)
    assert database.run_blocking(lambda tx: tx.execute(text("SELECT kind FROM jobs")).scalar_one()) == "outside"
    database.close()


def test_down_and_up_again_with_data_inside(empty_url: str) -> None:
    migrate_service(empty_url)
    for _ in range(2):
        database = open_database(empty_url)
        database.run_blocking(write)
        database.close()
        status = migrate_down(empty_url, locations=LOCATIONS)
        assert status.current == []
        assert len(status.pending) == len(known_migrations(LOCATIONS))
        assert tables(empty_url) == set()
        migrate_service(empty_url)
        assert tables(empty_url) == ALL_TABLES
    database = open_database(empty_url)
    assert database.run_blocking(read_events) == []
    database.run_blocking(write)
    database.close()


def test_a_failing_migration_leaves_nothing_behind(empty_url: str) -> None:
    execute(empty_url, "CREATE TABLE secrets (unexpected integer)")
    with pytest.raises(Exception, match="secrets"):
        migrate_service(empty_url)
    # Alerts and keys of the same migration went with it; the migrations before it stay.
    assert tables(empty_url) == {*ENGINE_TABLES, "idempotency_keys", "secrets"}
    with pytest.raises(SchemaMismatch, match="needs services_0001, credits_0001"):
        require_current_schema(empty_url, LOCATIONS)
    execute(empty_url, "DROP TABLE secrets")
    assert migrate_service(empty_url).up_to_date


def test_a_database_without_tables_is_refused(empty_url: str) -> None:
    assert migration_status(empty_url).current == []
    with pytest.raises(SchemaMismatch, match="no migration at all") as raised:
        require_current_schema(empty_url)
    assert "migrate up" in raised.value.hint
    migrate_up(empty_url)
    require_current_schema(empty_url)


def test_a_database_from_the_future_is_refused(database_url: str) -> None:
    execute(database_url, "INSERT INTO longtake_migrations VALUES ('credits_9999')")
    for use in (require_current_schema, migrate_up, migration_status):
        with pytest.raises(SchemaMismatch, match="credits_9999") as raised:
            use(database_url, LOCATIONS)
        assert "newer version" in raised.value.hint
    # The engine's tables are as it knows them.
    require_current_schema(database_url)


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
    code = (
        "import sys; from longtake.server.open_database import migrate_service;"
        " print(migrate_service(sys.argv[1]).current[-1])"
    )
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
    assert [answer[0] for answer in answers] == ["catalogue_0001\n"] * 2, answers
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


def test_a_library_user_gets_the_engines_tables_and_no_others(empty_url: str) -> None:
    assert migrate_up(empty_url).current == ["engine_0001"]
    assert tables(empty_url) == ENGINE_TABLES
    assert migrate_service(empty_url).up_to_date
    assert tables(empty_url) == ALL_TABLES


def test_the_engine_migrates_alone_beside_the_services_tables(empty_url: str) -> None:
    migrate_service(empty_url)
    assert migrate_up(empty_url).current == ["engine_0001"]
    with pytest.raises(SchemaMismatch, match="credits") as raised:
        migrate_down(empty_url)
    assert "locations" in raised.value.hint
    assert tables(empty_url) == ALL_TABLES


def test_a_package_of_an_application_migrates_beside_ours(
    empty_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a_package_of_theirs" / "notes" / "migrations"
    folder.mkdir(parents=True)
    (folder.parents[1] / "__init__.py").touch()
    for number in (1, 2):
        (folder / f"000{number}_notes.py").write_text(
            f'"""Table number {number}."""\nfrom alembic import op\n'
            f"def upgrade(): op.execute('CREATE TABLE notes_{number} (id integer)')\n"
            f"def downgrade(): op.execute('DROP TABLE notes_{number}')\n"
        )
    monkeypatch.syspath_prepend(tmp_path)
    locations = ("longtake.engine", "a_package_of_theirs.notes")
    migrate_up(empty_url)
    pending = migration_status(empty_url, locations).pending
    assert pending == ["notes_0001 Table number 1.", "notes_0002 Table number 2."]
    assert migrate_up(empty_url, locations).current == ["engine_0001", "notes_0002"]
    assert tables(empty_url) == ENGINE_TABLES | {"notes_1", "notes_2"}
    assert migrate_down(empty_url, "notes_0001", locations).pending == ["notes_0002 Table number 2."]
    assert tables(empty_url) == ENGINE_TABLES | {"notes_1"}
    with pytest.raises(ValueError, match="notes_0003"):
        migrate_down(empty_url, "notes_0003", locations)
    with pytest.raises(LookupError, match="has no folder of migrations"):
        migrate_up(empty_url, ["a_package_of_theirs.nothing"])
