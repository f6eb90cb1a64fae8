"""The databases' errors in words a caller can act on. Each is provoked for real where that is possible."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING

import psycopg
import pytest
import sqlalchemy.exc
from sqlalchemy import text

from longtake import open_database
from longtake.db import sqlite_connection
from longtake.db.errors import (
    DatabaseBusy,
    DatabaseError,
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseUnavailable,
    RightsMissing,
    SchemaMismatch,
)
from longtake.errors import SettingsError
from tests.db.notes import add_note, make_notes, read_notes
from tests.db.test_reruns import set_for_database

if TYPE_CHECKING:
    from longtake import Database, Transaction
    from longtake.db.sqlite import SqliteDatabase


async def test_a_missing_table(database: Database) -> None:
    for ask in (database.run, database.read):
        with pytest.raises(SchemaMismatch, match="notes") as raised:
            await ask(read_notes)
        assert "migrate up" in raised.value.hint


async def test_a_broken_rule_stays_what_it_is(noted: Database) -> None:
    await noted.run(add_note, 1)
    with pytest.raises(sqlalchemy.exc.IntegrityError):
        await noted.run(add_note, 1)


async def test_a_server_that_takes_no_writes(postgresql_url: str) -> None:
    set_for_database(postgresql_url, "default_transaction_read_only = on")
    standby = open_database(postgresql_url)
    with pytest.raises(DatabaseReadOnly, match="takes no writes") as raised:
        await standby.run(make_notes)
    assert "primary" in raised.value.hint
    standby.close()


async def test_a_file_that_takes_no_writes(sqlite_noted: SqliteDatabase) -> None:
    writer = sqlite_noted._writer.driver
    writer.execute("PRAGMA query_only = ON")
    with pytest.raises(DatabaseReadOnly):
        await sqlite_noted.run(add_note, 1)
    writer.execute("PRAGMA query_only = OFF")
    await sqlite_noted.run(add_note, 2)
    assert await sqlite_noted.read(read_notes) == [2]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("disk_full", DatabaseFull),
        ("lock_not_available", DatabaseBusy),
        ("query_canceled", DatabaseBusy),
        ("too_many_connections", DatabaseBusy),
        ("insufficient_privilege", RightsMissing),
        ("undefined_table", SchemaMismatch),
        ("read_only_sql_transaction", DatabaseReadOnly),
    ],
)
async def test_what_postgresql_says(postgresql_noted: Database, state: str, expected: type[DatabaseError]) -> None:
    def raise_it(tx: Transaction) -> None:
        add_note(tx, 1)
        tx.execute(text(f"DO $$ BEGIN RAISE EXCEPTION 'as told' USING ERRCODE = '{state}'; END $$"))

    with pytest.raises(expected, match="as told") as raised:
        await postgresql_noted.run(raise_it)
    assert type(raised.value) is expected
    assert "DO $$" not in raised.value.message
    assert await postgresql_noted.read(read_notes) == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_BUSY, DatabaseBusy),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, DatabaseBusy),
        (sqlite3.SQLITE_LOCKED, DatabaseBusy),
        (sqlite3.SQLITE_FULL, DatabaseFull),
        (sqlite3.SQLITE_READONLY_DBMOVED, DatabaseReadOnly),
        (sqlite3.SQLITE_IOERR_FSYNC, DatabaseUnavailable),
        (sqlite3.SQLITE_CANTOPEN, DatabaseUnavailable),
    ],
)
def test_what_sqlite_says(code: int, expected: type[DatabaseError]) -> None:
    error = sqlite3.OperationalError("as told")
    error.sqlite_errorcode = code
    for wrapped in (error, sqlalchemy.exc.OperationalError("INSERT", {}, error)):
        translated = sqlite_connection.translate(wrapped)
        assert type(translated) is expected
        assert "as told" in str(translated)


async def test_a_lock_that_another_program_holds(postgresql_noted: Database, postgresql_url: str) -> None:
    def wait_briefly(tx: Transaction) -> None:
        tx.execute(text("SET LOCAL lock_timeout = '50ms'"))
        add_note(tx, 1)

    with psycopg.connect(postgresql_url) as connection:
        connection.execute("LOCK TABLE notes IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(DatabaseBusy, match="lock"):
            await postgresql_noted.run(wait_briefly)
        connection.rollback()
    await postgresql_noted.run(add_note, 1)


async def test_a_statement_that_takes_too_long(postgresql_url: str) -> None:
    def sleep(tx: Transaction) -> None:
        tx.execute(text("SELECT pg_sleep(60)"))

    database = open_database(postgresql_url, statement_seconds=0.1)
    with pytest.raises(DatabaseBusy, match="longer than allowed"):
        await asyncio.wait_for(database.run(sleep), 20)
    database.close()


@pytest.mark.parametrize("url", ["mysql://root@localhost/x", "longtake.db", "sqlite://", "sqlite:///", ""])
def test_an_address_of_neither_database(url: str) -> None:
    with pytest.raises(SettingsError, match="neither SQLite nor PostgreSQL") as raised:
        open_database(url)
    assert "sqlite:///" in raised.value.hint


def test_a_folder_in_place_of_the_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("a folder")
    with pytest.raises(DatabaseUnavailable, match="cannot be opened"):
        open_database(f"sqlite:///{folder}")
