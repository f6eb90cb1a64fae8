"""PostgreSQL: a function is run again after what may pass, and its effect is there once."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import text

from longtake import open_database
from longtake.db import postgresql
from longtake.db.errors import DatabaseBusy, DatabaseUnavailable
from longtake.db.postgresql import PostgresqlDatabase
from longtake.db.postgresql_session import SessionOptions
from tests.databases import as_administrator
from tests.db.notes import add_note, make_notes, read_notes
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtake import Database, Transaction


def set_for_database(url: str, setting: str) -> None:
    """Change a setting for every connection made from now on."""
    name = url.split("?", maxsplit=1)[0].rsplit("/", 1)[1]
    with psycopg.connect(as_administrator(url), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET {setting}".encode())


def end_connection(url: str, process: int) -> None:
    """End a server process and wait until it is gone."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 10000)", (process,))


def own_process(tx: Transaction) -> int:
    return int(tx.execute(text("SELECT pg_backend_pid()")).scalar_one())


@pytest.fixture
def strict(postgresql_url: str) -> Iterator[Database]:
    """A database whose transactions are serializable, and which looks for deadlocks at once."""
    set_for_database(postgresql_url, "default_transaction_isolation = 'serializable'")
    opened = open_database(postgresql_url)
    opened.run_blocking(make_notes)
    yield opened
    opened.close()


async def test_a_serialization_failure_is_run_again(strict: Database) -> None:
    together = threading.Barrier(2, timeout=PATIENCE_SECONDS)
    runs: list[int] = []

    def count_then_add(tx: Transaction, value: int) -> int:
        """Write what the count was: two of these at once cannot both be right."""
        runs.append(value)
        count = len(read_notes(tx))
        if runs.count(value) == 1:
            together.wait()
        add_note(tx, value + count)
        return count

    counts = await asyncio.gather(strict.run(count_then_add, 10), strict.run(count_then_add, 20))
    assert sorted(counts) == [0, 1]
    assert len(runs) == 3
    assert len(await strict.read(read_notes)) == 2


async def test_a_deadlock_of_two_transactions_ends_well_for_both(
    postgresql_url: str, deadlocks: list[BaseException]
) -> None:
    set_for_database(postgresql_url, "deadlock_timeout = '50ms'")
    database = open_database(postgresql_url)
    database.run_blocking(make_notes)
    together, one_is_through = threading.Barrier(2, timeout=PATIENCE_SECONDS), threading.Event()
    runs: list[int] = []

    def lock_both(tx: Transaction, first: int, second: int) -> None:
        runs.append(first)
        again = runs.count(first) > 1
        # A row goes to whoever asks, not to who has waited: the one that lost could be back before the other wakes up.
        assert not again or one_is_through.wait(20)
        tx.execute(text("SELECT 1 FROM notes WHERE value = :value FOR UPDATE"), {"value": first})
        if not again:
            together.wait()
        tx.execute(text("SELECT 1 FROM notes WHERE value = :value FOR UPDATE"), {"value": second})
        add_note(tx, 10 + first)

    async def get_through(first: int, second: int) -> None:
        await database.run(lock_both, first, second)
        one_is_through.set()

    await database.run(add_note, 1)
    await database.run(add_note, 2)
    await asyncio.gather(get_through(1, 2), get_through(2, 1))
    assert len(runs) == 3
    assert len(deadlocks) == 1
    deadlocks.clear()
    assert await database.read(read_notes) == [1, 2, 11, 12]
    database.close()


@pytest.mark.parametrize("moment", ["before the last statement", "before COMMIT"])
async def test_a_connection_ended_before_its_commit_is_replaced(
    postgresql_noted: Database, postgresql_url: str, moment: str
) -> None:
    runs: list[int] = []

    def write_and_lose_the_connection(tx: Transaction) -> str:
        runs.append(own_process(tx))
        if len(runs) == 1 and moment == "before the last statement":
            end_connection(postgresql_url, runs[0])
        add_note(tx, 1)
        if len(runs) == 1:
            end_connection(postgresql_url, runs[0])
        return "answer"

    assert await postgresql_noted.run(write_and_lose_the_connection) == "answer"
    assert len(runs) == 2
    assert await postgresql_noted.read(read_notes) == [1]


async def test_a_reader_whose_connection_ended_is_run_again(postgresql_noted: Database, postgresql_url: str) -> None:
    runs: list[int] = []

    def read(tx: Transaction) -> list[int]:
        runs.append(own_process(tx))
        if len(runs) == 1:
            end_connection(postgresql_url, runs[0])
        return read_notes(tx)

    await postgresql_noted.run(add_note, 1)
    assert await postgresql_noted.read(read) == [1]
    assert len(runs) == 2


async def test_an_error_of_the_function_itself_is_not_run_again(postgresql_noted: Database) -> None:
    runs: list[int] = []

    def break_a_rule(tx: Transaction) -> None:
        runs.append(1)
        add_note(tx, 1)
        add_note(tx, 1)

    with pytest.raises(Exception, match="duplicate key"):
        await postgresql_noted.run(break_a_rule)
    assert len(runs) == 1
    assert await postgresql_noted.read(read_notes) == []


async def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "PATIENCE_SECONDS", 0.1)
    database = open_database("postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(DatabaseUnavailable):
        await database.run(add_note, 1)
    with pytest.raises(DatabaseUnavailable):
        database.run_blocking(add_note, 1)
    database.close()


async def test_what_fails_again_and_again_is_told_as_busy(
    postgresql_noted: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_always(tx: Transaction) -> None:
        tx.execute(text("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'serialization_failure'; END $$"))

    monkeypatch.setattr(postgresql, "PATIENCE_SECONDS", 0.1)
    with pytest.raises(DatabaseBusy):
        await postgresql_noted.run(lose_always)


async def test_when_every_thread_is_taken_urgent_calls_go_on_and_too_many_others_are_refused(
    postgresql_url: str,
) -> None:
    database = PostgresqlDatabase(SessionOptions(postgresql_url), threads=2, waiting_limit=3)
    database.run_blocking(make_notes)
    taken, leave = threading.Barrier(3, timeout=PATIENCE_SECONDS), threading.Event()

    def hold(_tx: Transaction) -> None:
        taken.wait()
        assert leave.wait(20)

    holding = [asyncio.create_task(database.run(hold)) for _ in range(2)]
    await asyncio.to_thread(taken.wait)
    waiting = [asyncio.create_task(database.run(add_note, value)) for value in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(DatabaseBusy, match="waiting"):
        await database.run(add_note, 4)
    assert await asyncio.to_thread(database.run_blocking, add_note, 5) == 5
    leave.set()
    await asyncio.gather(*holding, *waiting)
    assert await database.read(read_notes) == [0, 1, 2, 5]
    database.close()
