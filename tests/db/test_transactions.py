"""What holds on both databases: a function's writes are all there or not at all, and readers see one moment."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from longtake.db.errors import DatabaseReadOnly, DatabaseUnavailable, TransactionEnded
from tests.db.notes import add_note, read_notes

if TYPE_CHECKING:
    from longtake import Database, Transaction


async def test_what_a_function_returns_comes_back_and_what_it_wrote_stays(noted: Database) -> None:
    assert await noted.run(add_note, 7) == 7
    assert await noted.read(read_notes) == [7]


async def test_named_arguments_reach_the_function(noted: Database) -> None:
    def add_all(tx: Transaction, *numbers: int, plus: int = 0) -> list[int]:
        return [add_note(tx, number + plus) for number in numbers]

    def read_repeated(tx: Transaction, *, times: int = 1) -> list[int]:
        return read_notes(tx) * times

    assert await noted.run(add_all, 1, 2, plus=10) == [11, 12]
    assert noted.run_blocking(add_all, 3, plus=10) == [13]
    assert await noted.read(read_repeated, times=2) == [11, 12, 13] * 2


async def test_an_exception_rolls_back_and_reaches_the_caller_as_it_is(noted: Database) -> None:
    def write_then_fail(tx: Transaction) -> None:
        add_note(tx, 1)
        raise LookupError("changed my mind")

    with pytest.raises(LookupError, match="changed my mind"):
        await noted.run(write_then_fail)
    with pytest.raises(LookupError, match="changed my mind"):
        noted.run_blocking(write_then_fail)
    assert await noted.read(read_notes) == []


@pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK", "END"])
async def test_a_function_that_ends_its_transaction_is_refused(noted: Database, ending: str) -> None:
    def end_it(tx: Transaction) -> None:
        tx.sql(ending)

    with pytest.raises(TransactionEnded) as raised:
        await noted.run(end_it)
    assert "COMMIT" in raised.value.hint
    await noted.run(add_note, 2)
    assert await noted.read(read_notes) == [2]


async def test_callbacks_run_after_the_commit_once_each_and_never_after_a_rollback(noted: Database) -> None:
    seen: list[list[int]] = []
    failed = threading.Event()

    def look() -> None:
        # On the database's own thread a second connection has to look.
        seen.append(asyncio.run_coroutine_threadsafe(noted.read(read_notes), loop).result(timeout=10))

    def write(tx: Transaction) -> None:
        add_note(tx, 3)
        tx.after_commit(look)
        tx.after_commit(look)

    def fail(tx: Transaction) -> None:
        tx.after_commit(failed.set)
        raise LookupError

    loop = asyncio.get_running_loop()
    await noted.run(write)
    with pytest.raises(LookupError):
        await noted.run(fail)
    assert seen == [[3]]
    assert not failed.is_set()


async def test_a_reader_sees_one_moment(noted: Database) -> None:
    def read_write_read(tx: Transaction) -> tuple[list[int], list[int]]:
        before = read_notes(tx)
        noted.run_blocking(add_note, 5)
        return before, read_notes(tx)

    await noted.run(add_note, 4)
    assert await noted.read(read_write_read) == ([4], [4])
    assert await noted.read(read_notes) == [4, 5]


async def test_a_reader_cannot_write(noted: Database) -> None:
    with pytest.raises(DatabaseReadOnly):
        await noted.read(add_note, 6)
    await noted.run(add_note, 7)
    assert await noted.read(read_notes) == [7]


async def test_a_reader_that_fails_leaves_its_connection_usable(noted: Database) -> None:
    def fail(tx: Transaction) -> None:
        read_notes(tx)
        raise LookupError

    for _ in range(20):
        with pytest.raises(LookupError):
            await noted.read(fail)
    assert await noted.read(read_notes) == []


async def test_a_closed_database_refuses_at_once(noted: Database) -> None:
    noted.close()
    noted.close()
    with pytest.raises(DatabaseUnavailable, match="closed"):
        await noted.run(add_note, 1)
    with pytest.raises(DatabaseUnavailable, match="closed"):
        await noted.read(read_notes)


async def test_closing_finishes_what_was_begun(noted: Database) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> int:
        entered.set()
        assert leave.wait(20)
        return add_note(tx, 9)

    task = asyncio.create_task(noted.run(slow))
    await asyncio.to_thread(entered.wait, 20)
    closing = asyncio.create_task(asyncio.to_thread(noted.close))
    leave.set()
    assert await task == 9
    await closing


async def test_64_callers_at_once_are_all_written(noted: Database) -> None:
    answers = await asyncio.gather(*(noted.run(add_note, value) for value in range(64)))
    assert answers == list(range(64))
    assert await noted.read(read_notes) == list(range(64))


async def test_a_transaction_that_somebody_lets_go_of_disturbs_nobody_else(noted: Database) -> None:
    """A cursor of Python's has its statement reset when it goes, on whatever thread, whoever may be using it."""
    mark = "?" if noted.dialect == "sqlite" else "%s"
    insert = f"INSERT INTO notes VALUES ({mark})"

    def write(tx: Transaction, values: range) -> Transaction:
        tx.sql_many(insert, [(value,) for value in values])
        return tx

    over = await asyncio.gather(*(noted.run(write, range(one, one + 1)) for one in range(500)))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        writing = [asyncio.ensure_future(noted.run(write, range(500 + n, 40_500, 100))) for n in range(100)]
        while over:
            over.pop()
            await asyncio.sleep(0)
        await asyncio.gather(*writing)
    finally:
        sys.setswitchinterval(interval)
    assert await noted.read(read_notes) == list(range(40_500))
