"""One fsync for many callers: each hears only after the commit, and none is harmed by another."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from longtake.db.errors import TransactionEnded
from tests.db.notes import add_note, read_notes

if TYPE_CHECKING:
    from longtake import Transaction
    from longtake.db.sqlite import SqliteDatabase


class Gate:
    """Holds the writer thread inside a function, so that all that is sent meanwhile is one group."""

    def __init__(self) -> None:
        self._entered = threading.Event()
        self._open = threading.Event()

    def hold(self, _tx: Transaction) -> None:
        self._entered.set()
        assert self._open.wait(20)

    async def closed(self, database: SqliteDatabase) -> asyncio.Task[None]:
        """Hold the writer; return what to await after opening."""
        held = asyncio.create_task(database.run(self.hold))
        assert await asyncio.to_thread(self._entered.wait, 20)
        return held

    def open(self) -> None:
        self._open.set()


async def send(database: SqliteDatabase, values: range) -> list[asyncio.Task[int]]:
    """Let callers queue up behind the gate, in order."""
    tasks = [asyncio.create_task(database.run(add_note, value)) for value in values]
    await asyncio.sleep(0)
    return tasks


def outside(database: SqliteDatabase) -> sqlite3.Connection:
    return sqlite3.connect(database.path)


def is_there(database: SqliteDatabase, value: int) -> bool:
    """Look with a connection that has nothing to do with the database's own."""
    connection = outside(database)
    try:
        return connection.execute("SELECT 1 FROM notes WHERE value = ?", (value,)).fetchone() is not None
    finally:
        connection.close()


async def test_64_callers_share_one_commit(sqlite_noted: SqliteDatabase) -> None:
    commits: list[str] = []
    trace = sqlite_noted._writer.driver.set_trace_callback
    trace(lambda statement: commits.append(statement) if statement.startswith("COMMIT") else None)
    gate = Gate()
    held = await gate.closed(sqlite_noted)
    tasks = await send(sqlite_noted, range(64))
    gate.open()
    assert await asyncio.gather(*tasks) == list(range(64))
    await held
    assert len(commits) == 1


async def test_each_caller_hears_only_after_its_commit(sqlite_noted: SqliteDatabase) -> None:
    async def write_and_look(value: int) -> bool:
        await sqlite_noted.run(add_note, value)
        return is_there(sqlite_noted, value)

    assert all(await asyncio.gather(*(write_and_look(value) for value in range(64))))


async def test_nobody_hears_while_the_group_is_open(sqlite_noted: SqliteDatabase) -> None:
    first_ran, gate = threading.Event(), Gate()

    def write(tx: Transaction) -> int:
        add_note(tx, 1)
        first_ran.set()
        return 1

    held = await gate.closed(sqlite_noted)
    heard = asyncio.create_task(sqlite_noted.run(write))
    last = Gate()
    await asyncio.sleep(0)
    behind = asyncio.create_task(sqlite_noted.run(last.hold))
    await asyncio.sleep(0)
    gate.open()
    assert await asyncio.to_thread(last._entered.wait, 20)
    assert first_ran.is_set()
    assert not heard.done()
    assert not is_there(sqlite_noted, 1)
    last.open()
    assert await heard == 1
    await asyncio.gather(held, behind)


async def test_one_failing_function_rolls_back_only_itself(sqlite_noted: SqliteDatabase) -> None:
    def write_then_fail(tx: Transaction) -> None:
        add_note(tx, 100)
        raise LookupError("mine alone")

    gate = Gate()
    held = await gate.closed(sqlite_noted)
    before = await send(sqlite_noted, range(5))
    failing = asyncio.create_task(sqlite_noted.run(write_then_fail))
    await asyncio.sleep(0)
    after = await send(sqlite_noted, range(5, 10))
    gate.open()
    with pytest.raises(LookupError, match="mine alone"):
        await failing
    await asyncio.gather(held, *before, *after)
    assert await sqlite_noted.read(read_notes) == list(range(10))


async def test_a_caller_that_went_away_harms_nobody(sqlite_noted: SqliteDatabase) -> None:
    gate = Gate()
    held = await gate.closed(sqlite_noted)
    tasks = await send(sqlite_noted, range(3))
    tasks[1].cancel()
    await asyncio.wait([tasks[1]])
    gate.open()
    await asyncio.gather(held, tasks[0], tasks[2])
    notes = await sqlite_noted.read(read_notes)
    assert tasks[1].cancelled()
    # Whether its function ran is its own affair; here it had been queued already.
    assert [value for value in notes if value != 1] == [0, 2]
    assert await sqlite_noted.run(add_note, 4) == 4


@pytest.mark.parametrize("statement", ["COMMIT", "END", "ROLLBACK", "BEGIN", "SAVEPOINT mine", "RELEASE one"])
@pytest.mark.parametrize("by_core", [True, False])
async def test_transaction_statements_are_refused_and_others_are_unharmed(
    sqlite_noted: SqliteDatabase, statement: str, by_core: bool
) -> None:
    def end_it(tx: Transaction) -> None:
        add_note(tx, 100)
        if by_core:
            tx.execute(text(statement))
        else:
            tx.sql(statement)

    gate = Gate()
    held = await gate.closed(sqlite_noted)
    before = await send(sqlite_noted, range(2))
    ending = asyncio.create_task(sqlite_noted.run(end_it))
    await asyncio.sleep(0)
    after = await send(sqlite_noted, range(2, 4))
    gate.open()
    with pytest.raises(TransactionEnded):
        await ending
    await asyncio.gather(held, *before, *after)
    assert await sqlite_noted.read(read_notes) == [0, 1, 2, 3]


async def test_more_callers_than_one_group_holds_are_all_served(sqlite_noted: SqliteDatabase) -> None:
    gate = Gate()
    held = await gate.closed(sqlite_noted)
    tasks = await send(sqlite_noted, range(600))
    gate.open()
    await asyncio.gather(held, *tasks)
    assert await sqlite_noted.read(read_notes) == list(range(600))


async def test_threads_and_event_loops_share_a_group(sqlite_noted: SqliteDatabase) -> None:
    gate = Gate()
    held = await gate.closed(sqlite_noted)
    blocking = asyncio.create_task(asyncio.to_thread(sqlite_noted.run_blocking, add_note, 1))
    tasks = await send(sqlite_noted, range(2, 4))
    gate.open()
    assert await blocking == 1
    await asyncio.gather(held, *tasks)
    assert await sqlite_noted.read(read_notes) == [1, 2, 3]
