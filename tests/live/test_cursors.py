"""Cursors: one word for a place in the log, and the place of this moment."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtake import Database, open_database
from longtake.engine.events import read_events
from longtake.http.errors import InvalidCursor
from longtake.services.live.event_log import MOST, current_cursor, current_place, read_cursor, write_cursor
from tests.engine.stage import execute, until_readable
from tests.live.stage import tell, told

if TYPE_CHECKING:
    from longtake import Transaction

numbers = st.integers(0, MOST)


@given(st.tuples(numbers, numbers))
def test_a_cursor_is_read_as_it_was_written(cursor: tuple[int, int]) -> None:
    assert read_cursor(write_cursor(cursor)) == cursor


@pytest.mark.parametrize(
    "word",
    ["", "5", "5.", ".5", "5.6.7", "-1.5", "a.b", "5,6", " 5.6", "5.6\n", "٣.٤", f"{MOST + 1}.0", "9" * 30 + ".1"],
)
def test_what_was_never_written_is_refused(word: str) -> None:
    with pytest.raises(InvalidCursor):
        read_cursor(word)


async def test_the_place_of_this_moment_has_everything_before_it_and_nothing_after(database: Database) -> None:
    await told(database, "before")
    place = read_cursor(await database.read(current_cursor))
    assert await database.read(read_events, place) == []
    await told(database, "after")
    assert [event.subject for event in await database.read(read_events, place)] == ["after"]


async def test_the_place_is_right_when_all_events_were_removed(database: Database) -> None:
    assert (await database.read(current_place)) >= (0, 0)
    await told(database, "a", "b")
    place = await database.read(current_place)
    await database.run(execute, "DELETE FROM events")
    now = await database.read(current_place)
    await told(database, "c")
    for start in (place, now):
        assert [event.subject for event in await database.read(read_events, start)] == ["c"]


async def test_an_event_that_commits_after_the_moment_comes_after_it(postgresql_url: str) -> None:
    database = open_database(postgresql_url)
    begun, commit = threading.Event(), threading.Event()

    def slowly(tx: Transaction) -> None:
        tell(tx, "slow")
        begun.set()
        assert commit.wait(20)

    slow = asyncio.create_task(database.run(slowly))
    assert await asyncio.to_thread(begun.wait, 20)
    await told(database, "quick", settled=False)
    place = read_cursor(await database.read(current_cursor))
    commit.set()
    await slow
    await until_readable(database)
    # "quick" was visible in that moment already: it comes once more, and "slow" is not lost.
    assert [event.subject for event in await database.read(read_events, place)] == ["slow", "quick"]
    database.close()
