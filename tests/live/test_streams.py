"""One stream from its first frame to its last: heartbeats, limits, and who may still read."""

from __future__ import annotations

import asyncio

import pytest

from longtake import Database
from longtake.db.errors import DatabaseUnavailable
from longtake.services.live.errors import TooManyStreams
from longtake.services.live.event_log import current_place, read_cursor
from longtake.services.live.streams import StreamLimits
from tests.live.stage import Desk, told


async def test_heartbeats_come_and_move_the_cursor_on(database: Database) -> None:
    desk = Desk(database, limits=StreamLimits(heartbeat_seconds=0.05))
    async with desk.feed.running():
        follower = await desk.follow("ann", types=["asset.*"])
        await told(database, "not wanted here")
        start = follower.stream.subscriber.start
        await follower.until(lambda one: read_cursor(one.cursor if one.frames else "0.0") > start)
        assert {frame.event for frame in follower.frames} == {"ready", "heartbeat"}
        place = read_cursor(follower.cursor)
        # Nothing that happened is before it: whoever goes on from here misses nothing.
        await follower.close()
        await told(database, "next")
        again = await desk.follow("ann", place)
        await again.until_subjects("next")
        await again.close()


async def test_a_heartbeat_never_goes_back_behind_where_the_reader_began(database: Database) -> None:
    desk = Desk(database, limits=StreamLimits(heartbeat_seconds=0.05))
    first = await desk.follow()
    await told(database, "one")
    # The feed does not run: it stays where it was.
    start = await database.read(current_place)
    ahead = await desk.follow("ann", start)
    await ahead.until(lambda one: any(frame.event == "heartbeat" for frame in one.frames))
    assert read_cursor(ahead.cursor) == start
    await first.close()
    await ahead.close()


async def test_who_may_no_longer_read_is_sent_away(database: Database) -> None:
    desk = Desk(database, limits=StreamLimits(heartbeat_seconds=0.02, check_seconds=0.05))
    follower = await desk.follow()
    await follower.until(lambda one: len(one.frames) > 5)
    desk.valid = False
    await follower.until(lambda one: one.done.done())
    assert (follower.frames[-1].event, follower.frames[-1].data) == ("farewell", {"reason": "UNAUTHORIZED"})
    await follower.close()


async def test_who_missed_something_while_the_database_is_away_is_told_to_come_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(database)
    await told(database, "missed")
    before = await desk.follow()

    async def away(*_arguments: object, **_more: object) -> None:
        raise DatabaseUnavailable("PostgreSQL cannot be reached.")

    # The feed is there already; only the log behind it cannot be read.
    monkeypatch.setattr(desk.streams.database, "read", away)
    follower = await desk.follow("ann", (0, 0))
    await follower.until(lambda one: one.done.done())
    assert (follower.frames[-1].event, follower.frames[-1].data) == ("farewell", {"reason": "UNAVAILABLE"})
    await follower.close()
    await before.close()


async def test_a_server_that_stops_says_so_to_all_and_to_who_comes_then(database: Database) -> None:
    desk = Desk(database)
    followers = [await desk.follow(user) for user in ("ann", "bob")]
    desk.feed.stop()
    followers.append(await desk.follow("eve"))
    for follower in followers:
        await follower.until(lambda one: one.done.done())
        assert follower.frames[-1].data == {"reason": "SERVER_STOPPING"}
        await follower.close()


@pytest.mark.parametrize("limits", [StreamLimits(per_user=2), StreamLimits(in_all=2)])
async def test_more_streams_than_allowed_are_refused_until_one_is_closed(
    database: Database, limits: StreamLimits
) -> None:
    desk = Desk(database, limits=limits)
    streams = await asyncio.gather(desk.open(), desk.open(), desk.open(), return_exceptions=True)
    refused = [one for one in streams if isinstance(one, BaseException)]
    assert [type(one) for one in refused] == [TooManyStreams]
    kept = [one for one in streams if not isinstance(one, BaseException)]
    if limits.per_user == 2:
        (await desk.open("bob")).close()
    kept[0].close()
    (await desk.open()).close()
    kept[1].close()
    assert not desk.feed._subscribers


async def test_a_connection_that_takes_nothing_more_is_hung_up(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longtake.services.live.streams.LAST_FRAME_SECONDS", 0.05)
    desk = Desk(database)
    stuck = await desk.open()
    hung_up = asyncio.Event()
    stuck.subscriber.hang_up = hung_up.set
    desk.feed.stop()
    await asyncio.wait_for(hung_up.wait(), 10)
    stuck.close()
