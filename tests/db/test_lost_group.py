"""The shared transaction is lost: nobody is told success for it, and each function is run again by itself."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING

import pytest

from longtake.db.errors import DatabaseBusy, DatabaseFull
from tests.db.notes import add_note, read_notes
from tests.db.test_group_commit import Gate, send

if TYPE_CHECKING:
    from longtake import Transaction
    from longtake.db.sqlite import SqliteDatabase


def lose_the_transaction(tx: Transaction) -> None:
    """Make SQLite roll everything back, as it does after an I/O error."""
    add_note(tx, 100)
    tx.sql("INSERT OR ROLLBACK INTO notes VALUES (100)")


async def test_each_is_run_again_and_written_exactly_once(sqlite_noted: SqliteDatabase) -> None:
    runs: list[int] = []
    told: list[int] = []

    def write(tx: Transaction, value: int) -> int:
        runs.append(value)
        tx.after_commit(lambda: told.append(value))
        return add_note(tx, value)

    gate = Gate()
    held = await gate.closed(sqlite_noted)
    before = [asyncio.create_task(sqlite_noted.run(write, value)) for value in range(3)]
    await asyncio.sleep(0)
    losing = asyncio.create_task(sqlite_noted.run(lose_the_transaction))
    await asyncio.sleep(0)
    after = [asyncio.create_task(sqlite_noted.run(write, value)) for value in range(3, 6)]
    await asyncio.sleep(0)
    gate.open()
    with pytest.raises(sqlite3.IntegrityError):
        await losing
    assert await asyncio.gather(*before, *after) == list(range(6))
    await held
    assert await sqlite_noted.read(read_notes) == list(range(6))
    assert sorted(told) == list(range(6))
    assert [runs.count(value) for value in range(3)] == [2, 2, 2]


async def test_a_commit_that_fails_is_told_only_to_whom_it_concerns(sqlite_noted: SqliteDatabase) -> None:
    def make_children(tx: Transaction) -> None:
        tx.sql(
            "CREATE TABLE children (parent integer REFERENCES notes (value) DEFERRABLE INITIALLY DEFERRED)",
        )

    def orphan(tx: Transaction) -> None:
        tx.sql("INSERT INTO children VALUES (12345)")

    await sqlite_noted.run(make_children)
    gate = Gate()
    held = await gate.closed(sqlite_noted)
    before = await send(sqlite_noted, range(3))
    failing = asyncio.create_task(sqlite_noted.run(orphan))
    await asyncio.sleep(0)
    gate.open()
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        await failing
    await asyncio.gather(held, *before)
    assert await sqlite_noted.read(read_notes) == [0, 1, 2]


async def test_no_room_is_told_to_the_large_write_and_the_small_ones_go_on(sqlite_noted: SqliteDatabase) -> None:
    def leave_little_room(tx: Transaction) -> None:
        tx.sql("CREATE TABLE large (content blob)")
        pages = tx.sql("PRAGMA page_count")[0][0]
        tx.sql(f"PRAGMA max_page_count = {pages + 8}")

    def write_much(tx: Transaction) -> None:
        add_note(tx, 100)
        tx.sql("INSERT INTO large VALUES (randomblob(1000000))")

    def make_room(tx: Transaction) -> None:
        tx.sql("PRAGMA max_page_count = 1000000")

    await sqlite_noted.run(leave_little_room)
    gate = Gate()
    held = await gate.closed(sqlite_noted)
    before = await send(sqlite_noted, range(3))
    large = asyncio.create_task(sqlite_noted.run(write_much))
    await asyncio.sleep(0)
    after = await send(sqlite_noted, range(3, 6))
    gate.open()
    with pytest.raises(DatabaseFull):
        await large
    await asyncio.gather(held, *before, *after)
    assert await sqlite_noted.read(read_notes) == list(range(6))
    await sqlite_noted.run(make_room)
    await sqlite_noted.run(write_much)
    assert await sqlite_noted.read(read_notes) == [*range(6), 100]


async def test_an_outside_lock_refuses_all_and_writes_nothing_until_it_is_gone(sqlite_noted: SqliteDatabase) -> None:
    def do_not_wait_long(tx: Transaction) -> None:
        tx.sql("PRAGMA busy_timeout = 10")

    await sqlite_noted.run(do_not_wait_long)
    outside = sqlite3.connect(sqlite_noted.path, isolation_level=None)
    outside.execute("BEGIN IMMEDIATE")
    answers = await asyncio.gather(*(sqlite_noted.run(add_note, value) for value in range(3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [DatabaseBusy] * 3
    outside.execute("ROLLBACK")
    outside.close()
    await sqlite_noted.run(add_note, 9)
    assert await sqlite_noted.read(read_notes) == [9]
