"""The log of what changed: append-only, read in order by a cursor that skips nothing."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from longtake import Database, open_database
from longtake.engine.events import append_event, read_events
from tests.engine.stage import execute, until_readable
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from longtake import Transaction
    from tests.databases import StoppedClock


def tell(tx: Transaction, *names: str) -> None:
    for name in names:
        append_event(tx, name, subject=f"about {name}", user_id="alice", data={"name": name})


async def follow(
    database: Database, cursor: tuple[int, int] = (0, 0), limit: int = 500, *, settled: bool = True
) -> tuple[list[str], tuple[int, int]]:
    """Read from the cursor on until nothing more is there; before that wait, unless the test itself holds events up."""
    if settled:
        await until_readable(database)
    names: list[str] = []
    while events := await database.read(read_events, cursor, limit):
        names += [event.type for event in events]
        cursor = events[-1].cursor
    return names, cursor


async def test_an_event_comes_back_as_it_was_told(stopped_database: Database, clock: StoppedClock) -> None:
    await stopped_database.run(tell, "task.done")
    await until_readable(stopped_database)
    [event] = await stopped_database.read(read_events)
    assert (event.type, event.subject, event.user_id) == ("task.done", "about task.done", "alice")
    assert (event.data, event.at) == ({"name": "task.done"}, clock.now())


@pytest.mark.parametrize("change", ["UPDATE events SET type = 'forged'", "UPDATE events SET data = NULL WHERE true"])
async def test_events_are_never_changed(database: Database, change: str) -> None:
    await database.run(tell, "one")
    with pytest.raises(Exception, match="append-only"):
        await database.run(execute, change)
    assert (await follow(database))[0] == ["one"]


async def test_events_are_read_in_order_and_each_once(database: Database) -> None:
    expected = []
    for number in range(10):
        names = [f"{number}.{place}" for place in range(3)]
        await database.run(tell, *names)
        expected += names
    assert (await follow(database))[0] == expected
    assert (await follow(database, limit=4))[0] == expected


async def test_a_cursor_goes_on_where_it_was(database: Database) -> None:
    await database.run(tell, "a", "b")
    seen, cursor = await follow(database)
    assert seen == ["a", "b"]
    assert (await follow(database, cursor))[0] == []
    await database.run(tell, "c")
    seen, cursor = await follow(database, cursor)
    assert seen == ["c"]


async def test_what_is_rolled_back_was_never_told(database: Database) -> None:
    def tell_then_fail(tx: Transaction) -> None:
        tell(tx, "never")
        raise LookupError

    with pytest.raises(LookupError):
        await database.run(tell_then_fail)
    await database.run(tell, "after")
    assert (await follow(database))[0] == ["after"]


async def test_transactions_that_commit_in_the_wrong_order_skip_nothing(postgresql_url: str) -> None:
    database = open_database(postgresql_url)
    told, commit = threading.Event(), threading.Event()

    def tell_and_wait(tx: Transaction) -> None:
        tell(tx, "first to begin, last to commit")
        told.set()
        assert commit.wait(PATIENCE_SECONDS)

    slow = asyncio.create_task(database.run(tell_and_wait))
    assert await asyncio.to_thread(told.wait, 20)
    await database.run(tell, "second")
    # The second is committed, but a reader must not pass by the first.
    seen, cursor = await follow(database, settled=False)
    assert seen == []
    commit.set()
    await slow
    seen, cursor = await follow(database, cursor)
    assert seen == ["first to begin, last to commit", "second"]
    assert (await follow(database, cursor))[0] == []
    database.close()


async def test_many_writers_and_one_reader_lose_nothing(database: Database) -> None:
    async def write(writer: int) -> None:
        for number in range(15):
            await database.run(tell, f"{writer}.{number}")

    async def read_until(finished: asyncio.Event) -> list[str]:
        seen: list[str] = []
        cursor = (0, 0)
        while not finished.is_set():
            names, cursor = await follow(database, cursor, limit=7, settled=False)
            seen += names
        return seen + (await follow(database, cursor))[0]

    finished = asyncio.Event()
    reader = asyncio.create_task(read_until(finished))
    await asyncio.gather(*(write(writer) for writer in range(8)))
    finished.set()
    seen = await reader
    assert len(seen) == len(set(seen)) == 120
    for writer in range(8):
        assert [name for name in seen if name.startswith(f"{writer}.")] == [f"{writer}.{n}" for n in range(15)]


async def test_numbers_of_removed_events_are_not_given_again(database: Database) -> None:
    """Old events may be removed; a reader's cursor stays valid."""
    await database.run(tell, "a", "b")
    _seen, cursor = await follow(database)
    await database.run(execute, "DELETE FROM events")
    await database.run(tell, "c")
    assert (await follow(database, cursor))[0] == ["c"]
