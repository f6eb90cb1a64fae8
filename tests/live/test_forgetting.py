"""What is forgotten, and what never was: a reader who cannot be served without a gap is told to begin anew."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import func, select

from longtake import Database, open_database
from longtake.engine import prune
from longtake.engine.events import forgotten_until, read_events
from longtake.engine.tables import events
from longtake.services.live import streams as streams_module
from longtake.services.live.event_log import current_place
from tests.engine.stage import execute
from tests.live.stage import Desk, Follower, told

if TYPE_CHECKING:
    from longtake import Transaction
    from longtake.services.live.event_log import Cursor
    from tests.databases import StoppedClock

WEEK = timedelta(days=7, seconds=1).total_seconds()


def forget_old(database: Database) -> None:
    """Prune as the schedule does: events after 7 days."""
    place: prune.Place | None = prune.Place(prune.EVENTS, "0:0")
    while place is not None:
        place = database.run_blocking(prune.prune_page, place, 30, 7)


async def ended(desk: Desk, start: Cursor) -> Follower:
    """Follow from a place from which nothing can be followed."""
    follower = await desk.follow("ann", start)
    await follower.until(lambda one: one.done.done())
    return follower


async def assert_reset(desk: Desk, start: Cursor) -> None:
    follower = await ended(desk, start)
    last = follower.frames[-1]
    assert (last.event, last.id, last.data) == ("reset", None, {"reason": "EVENTS_FORGOTTEN"})
    assert follower.subjects == []
    await follower.close()


async def test_who_has_missed_what_is_forgotten_begins_anew(stopped_database: Database, clock: StoppedClock) -> None:
    database = stopped_database
    before = await database.read(current_place)
    await told(database, "old", "older")
    read = [event.cursor for event in await database.read(read_events)]
    clock.advance(WEEK)
    await told(database, "young")
    forget_old(database)
    assert await database.read(forgotten_until) == read[-1]
    desk = Desk(database)
    await assert_reset(desk, before)
    await assert_reset(desk, read[0])
    # Whoever has seen all that is gone has missed nothing.
    follower = await desk.follow("ann", read[-1])
    await follower.until_subjects("young")
    await follower.close()


async def test_forgetting_page_by_page_always_says_how_far(
    stopped_database: Database, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune, "PAGE", 2)
    await told(stopped_database, *"abcde")
    kept = [event.cursor for event in await stopped_database.read(read_events)]
    clock.advance(WEEK)
    place: prune.Place | None = prune.Place(prune.EVENTS, "0:0")
    for last in (1, 3, 4):
        assert place is not None
        place = await stopped_database.run(prune.prune_page, place, 30, 7)
        assert await stopped_database.read(forgotten_until) == kept[last]
        assert [event.cursor for event in await stopped_database.read(read_events)] == kept[last + 1 :]


async def test_what_is_forgotten_while_a_reader_catches_up_is_noticed(
    stopped_database: Database, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams_module, "PAGE", 2)
    start = await stopped_database.read(current_place)
    await told(stopped_database, *"abcdef")
    clock.advance(WEEK)
    desk = Desk(stopped_database)
    stream = await desk.open("ann", start)
    pieces = stream.chunks()
    got = [await anext(pieces), await anext(pieces)]
    forget_old(stopped_database)
    got += [piece async for piece in pieces]
    assert got[1].count(b"event: task.progress") == 2
    assert len(got) == 3
    assert b"event: reset" in got[2]
    stream.close()


async def test_a_place_the_log_has_not_reached_is_none_of_its_own(database: Database) -> None:
    """The database was restored from an older copy, or is another one."""
    await told(database, "one")
    desk = Desk(database)
    transaction, sequence = await database.read(current_place)
    await assert_reset(desk, (transaction + 1_000, sequence))
    if database.dialect == "sqlite":
        await assert_reset(desk, (transaction, sequence + 1_000))
    watching = await desk.follow()
    await assert_reset(desk, (transaction + 1_000, sequence))
    await watching.close()


async def test_a_place_ahead_of_the_feed_is_good_if_the_log_has_reached_it(database: Database) -> None:
    desk = Desk(database)
    first = await desk.follow()
    # The feed has not looked since.
    await told(database, "seen in a snapshot")
    start = await database.read(current_place)
    second = await desk.follow("ann", start)
    await told(database, "new")
    await desk.feed.round()
    await first.until_subjects("seen in a snapshot", "new")
    await second.until_subjects("new")
    await first.close()
    await second.close()


async def test_readers_begin_anew_when_the_log_is_suddenly_shorter(sqlite_url: str) -> None:
    database = open_database(sqlite_url)
    await told(database, "one", "two")
    desk = Desk(database)
    follower = await desk.follow()
    await database.run(execute, "DELETE FROM events")
    await database.run(execute, "UPDATE sqlite_sequence SET seq = 0 WHERE name = 'events'")
    await desk.feed.round()
    await follower.until(lambda one: one.done.done())
    assert follower.frames[-1].event == "reset"
    await follower.close()
    database.close()


async def test_events_of_another_server_hold_nobody_up_and_forget_nothing(postgresql_url: str) -> None:
    """A dump brings events whose numbers this server will reach only in years."""
    database = open_database(postgresql_url)
    strange = "INSERT INTO events (transaction_id, type, user_id, at) VALUES ('9000000000', 't', 'ann', '2020-01-01')"
    await database.run(execute, strange)
    desk = Desk(database)
    follower = await desk.follow()
    await told(database, "one")
    assert await desk.feed.round() == 1.0
    await follower.until_subjects("one")
    start = await database.read(current_place)
    forget_old(database)

    def left(tx: Transaction) -> int:
        count: int = tx.execute(select(func.count()).select_from(events).where(events.c.type == "t")).scalar_one()
        return count

    assert await database.read(left) == 0
    assert await database.read(forgotten_until) == (0, 0)
    await database.run(execute, "UPDATE events_forgotten SET transaction_id = 9000000000")
    await told(database, "two")
    again = await desk.follow("ann", start)
    await desk.feed.round()
    await again.until_subjects("two")
    await again.close()
    await follower.close()
    database.close()
