"""The feed: one look at the log for everybody, own events only, each once and in order."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from longtake import Database, open_database
from longtake.engine.events import is_held_up
from longtake.services.live import feed as feed_module
from longtake.services.live import streams
from longtake.services.live.event_log import current_place, read_cursor
from longtake.services.live.feed import ReplayBuffer
from longtake.services.live.streams import StreamLimits
from tests.live.stage import Desk, tell, told
from tests.wait import until

if TYPE_CHECKING:
    from longtake import Transaction


async def test_a_reader_is_told_what_happens_from_now_on(database: Database) -> None:
    await told(database, "before")
    desk = Desk(database)
    async with desk.feed.running():
        follower = await desk.follow()
        await told(database, "one", "two")
        await told(database, "three")
        await follower.until_subjects("one", "two", "three")
        assert [frame.event for frame in follower.frames][:2] == ["ready", "task.progress"]
        assert [frame.id for frame in follower.frames] == [frame.data["cursor"] for frame in follower.frames]
        await follower.close()


async def test_news_wake_the_feed_long_before_its_next_look(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "POLL_SECONDS", 3_600.0)
    await _tell_one_by_one(Desk(database), database)


async def test_so_do_news_of_another_process(postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "POLL_SECONDS", 3_600.0)
    reading, writing = open_database(postgresql_url), open_database(postgresql_url)
    await _tell_one_by_one(Desk(reading), writing)
    reading.close()
    writing.close()


async def _tell_one_by_one(desk: Desk, writing: Database) -> None:
    signals: Any = desk.database.signals
    async with desk.feed.running():
        await until(lambda: getattr(signals, "_listening", True) is not None)
        follower = await desk.follow()
        names: list[str] = []
        for name in ("one", "two", "three"):
            await told(writing, name)
            names.append(name)
            await follower.until_subjects(*names)
        await follower.close()


async def test_only_own_events_are_told(database: Database) -> None:
    desk = Desk(database)
    async with desk.feed.running():
        ann, bob = await desk.follow("ann"), await desk.follow("bob")
        await told(database, "for ann")
        await told(database, "for nobody", user=None)
        await told(database, "for bob", user="bob")
        await told(database, "for ann again")
        await ann.until_subjects("for ann", "for ann again")
        await bob.until_subjects("for bob")
        # Caught up from the log, it is the same.
        place = read_cursor(ann.frames[0].data["cursor"])
        await ann.close()
        await bob.close()
        late = await desk.follow("bob", place)
        await late.until_subjects("for bob")
        await late.close()


async def test_types_that_are_not_wanted_are_left_out(database: Database) -> None:
    desk = Desk(database)
    async with desk.feed.running():
        start = await database.read(current_place)
        await told(database, "one")
        for types, expected in ((["task.*"], 1), (["task.progress"], 1), (["*"], 1), (["asset.*"], 0), (["task"], 0)):
            follower = await desk.follow("ann", start, types)
            await follower.until(lambda one, n=expected: len(one.subjects) == n and bool(one.frames))  # type: ignore[misc]
            await follower.close()


async def test_a_reader_goes_on_where_it_was_from_memory_and_from_the_log(database: Database) -> None:
    desk = Desk(database)
    async with desk.feed.running():
        watching = await desk.follow("ann")
        await told(database, "one", "two", "three")
        await watching.until_subjects("one", "two", "three")
        ids = [one.data["cursor"] for one in watching.frames if "subject" in one.data]
        place = read_cursor(ids[0])
        remembered = await desk.open("ann", place)
        assert [one.cursor for one in remembered.subscriber.missed or ()] == [read_cursor(one) for one in ids[1:]]
        remembered.close()
        desk.feed._buffer = ReplayBuffer(0)
        desk.feed._buffer.restart(desk.feed.place)
        asked = await desk.open("ann", place)
        assert asked.subscriber.missed is None
        asked.close()
        again = await desk.follow("ann", place)
        await again.until_subjects("two", "three")
        await told(database, "four")
        await again.until_subjects("two", "three", "four")
        await again.close()
        await watching.close()


@pytest.mark.parametrize("remembered", [0, 10_000])
async def test_events_that_come_while_a_reader_catches_up_are_told_once(
    database: Database, monkeypatch: pytest.MonkeyPatch, remembered: int
) -> None:
    monkeypatch.setattr(streams, "PAGE", 3)
    start = await database.read(current_place)
    expected = [str(number) for number in range(60)]
    await told(database, *expected[:30])
    desk = Desk(database)
    desk.feed._buffer = ReplayBuffer(remembered)

    async def write() -> None:
        for name in expected[30:]:
            await told(database, name)

    async with desk.feed.running():
        writing = asyncio.create_task(write())
        followers = []
        for _ in range(5):
            followers.append(await desk.follow("ann", start))
            await asyncio.sleep(0)
        await writing
        for follower in followers:
            await follower.until_subjects(*expected)
            await follower.close()


def note_questions(database: Database, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with every read of the database but the tests' own, which wait for events to settle."""
    asked: list[str] = []
    read = database.read

    async def counted(function: Any, *arguments: Any, as_user: str | None = None) -> Any:
        if function is not is_held_up:
            asked.append(function.__name__)
        return await read(function, *arguments, as_user=as_user)

    monkeypatch.setattr(database, "read", counted)
    return asked


async def test_one_look_at_the_log_serves_all_readers(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(database, limits=StreamLimits(per_user=50))
    followers = [await desk.follow("ann") for _ in range(50)]
    asked = note_questions(database, monkeypatch)
    await told(database, "one")
    await desk.feed.round()
    for follower in followers:
        await follower.until_subjects("one")
    assert asked == ["read_page"]
    for follower in followers:
        await follower.close()


async def test_without_readers_nothing_is_asked(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "POLL_SECONDS", 0.01)
    asked = note_questions(database, monkeypatch)
    desk = Desk(database)
    async with desk.feed.running():
        follower = await desk.follow("ann")
        await until(lambda: asked.count("read_page") >= 3)
        await follower.close()
        # A look that was under way may still end.
        await asyncio.sleep(0.1)
        before = len(asked)
        await told(database, "unheard")
        await asyncio.sleep(0.2)
        assert len(asked) == before
        # A listener counts as a reader.
        heard: list[str | None] = []
        stop = desk.feed.listen(lambda event: heard.append(event.subject))
        await until(lambda: asked.count("current_place") >= 2)
        await told(database, "heard")
        await until(lambda: "heard" in heard)
        stop()


async def test_a_lost_signal_is_made_good_by_the_next_look(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database.signals, "deliver", lambda _topic: None)
    desk = Desk(database)
    async with desk.feed.running():
        follower = await desk.follow()
        await told(database, "one")
        await follower.until_subjects("one")
        await follower.close()


async def test_a_listener_that_fails_keeps_nobody_from_hearing(database: Database) -> None:
    desk = Desk(database)

    def fail(_event: object) -> None:
        raise LookupError

    stop = desk.feed.listen(fail)
    follower = await desk.follow()
    await told(database, "one", "two")
    await desk.feed.round()
    await follower.until_subjects("one", "two")
    stop()
    await follower.close()


async def test_a_reader_who_is_too_slow_is_dropped_and_goes_on_without_loss(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MOST_WAITING", 5)
    desk = Desk(database)
    slow = (await desk.open()).chunks()
    taken = [await anext(slow)]
    expected = [str(number) for number in range(12)]
    for name in expected:
        await told(database, name)
        await desk.feed.round()
    taken += [piece async for piece in slow]
    assert b"farewell" in taken[-1]
    assert b"TOO_SLOW" in taken[-1]
    start = read_cursor(taken[0].split(b"id: ")[1].split(b"\n")[0].decode())
    resumed = await desk.follow("ann", start)
    await resumed.until_subjects(*expected)
    await resumed.close()


async def test_a_slow_reader_holds_nobody_else_up(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_WAITING_BYTES", 500)
    desk = Desk(database)
    stuck = await desk.open()
    quick = await desk.follow()
    expected = [str(number) for number in range(20)]
    for number, name in enumerate(expected):
        await told(database, name)
        await desk.feed.round()
        await quick.until(lambda one, n=number: len(one.subjects) > n)  # type: ignore[misc]
    assert stuck.subscriber.ended == "TOO_SLOW"
    assert stuck.subscriber.take() == b"", "what waited is let go of"
    assert quick.subjects == expected
    stuck.close()
    await quick.close()


async def test_transactions_that_commit_in_the_wrong_order_skip_nothing(postgresql_url: str) -> None:
    """And a reader who went by the numbers alone would have skipped one."""
    database = open_database(postgresql_url)
    begun, commit = threading.Event(), threading.Event()

    def slowly(tx: Transaction) -> None:
        tell(tx, "first to begin")
        begun.set()
        assert commit.wait(20)

    def naive(tx: Transaction, after: int) -> list[tuple[int, str]]:
        return [(row[0], row[1]) for row in tx.sql(
            "SELECT sequence, subject FROM events WHERE sequence > %s ORDER BY sequence", (after,)
        )]  # fmt: skip

    desk = Desk(database)
    async with desk.feed.running():
        follower = await desk.follow()
        slow = asyncio.create_task(database.run(slowly))
        assert await asyncio.to_thread(begun.wait, 20)
        await told(database, "first to commit", settled=False)
        seen = await database.read(naive, 0)
        await asyncio.sleep(0.3)
        assert follower.subjects == []
        # Whoever comes now waits for it as well.
        late = await desk.follow()
        commit.set()
        await slow
        await follower.until_subjects("first to begin", "first to commit")
        await late.until_subjects("first to begin", "first to commit")
        seen += await database.read(naive, seen[-1][0])
        assert [subject for _number, subject in seen] == ["first to commit"], "the naive reader has lost one"
        await follower.close()
        await late.close()
    database.close()
