"""Whatever happens in whatever order, each reader gets exactly the events after its place, in order, once."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from longtake import Database, open_database
from longtake.engine import prune
from longtake.engine.events import forgotten_until, read_events
from longtake.server.open_database import migrate_service
from longtake.services.live import streams as streams_module
from longtake.services.live.event_log import Cursor, current_place
from longtake.services.live.feed import ReplayBuffer
from tests.live.stage import Desk, Follower, told
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtake import Transaction
    from tests.databases import PostgresqlServer

USERS = ("ann", "bob")
users = st.sampled_from(USERS)
steps = st.one_of(
    st.tuples(st.just("tell"), users, st.integers(1, 4)),
    st.tuples(st.just("look"), users, st.just(0)),
    st.tuples(st.just("breathe"), users, st.just(0)),
    # From so many places back; 0 is from now on.
    st.tuples(st.just("join"), users, st.integers(0, 12)),
    st.tuples(st.just("leave"), users, st.just(0)),
    # All but so many of the newest.
    st.tuples(st.just("forget"), users, st.integers(0, 6)),
)


class Story:
    """Follows the steps, and knows what each reader must have got."""

    def __init__(self, database: Database, remembered: int) -> None:
        self.database = database
        self.desk = Desk(database)
        self.desk.feed._buffer = ReplayBuffer(remembered)
        self.log: list[tuple[Cursor, str, str]] = []
        self.places: list[Cursor] = []
        self.readers: list[tuple[Follower, str, Cursor]] = []
        self.number = 0

    async def begin(self) -> None:
        self.places.append(await self.database.read(current_place))

    async def tell(self, user: str, many: int) -> None:
        names = [str(self.number + one) for one in range(many)]
        self.number += many
        last = self.log[-1][0] if self.log else self.places[0]
        await told(self.database, *names, user=user)
        found = await self.database.read(read_events, last)
        assert [event.subject for event in found] == names
        self.log += [(event.cursor, user, event.subject or "") for event in found]
        self.places += [event.cursor for event in found]

    async def look(self, _user: str, _many: int) -> None:
        await self.desk.feed.round()

    async def breathe(self, _user: str, _many: int) -> None:
        await asyncio.sleep(0.002)

    async def join(self, user: str, back: int) -> None:
        start = None if back == 0 else self.places[max(0, len(self.places) - back)]
        follower = await self.desk.follow(user, start)
        self.readers.append((follower, user, follower.stream.subscriber.start))

    async def leave(self, _user: str, _many: int) -> None:
        if self.readers:
            follower, user, start = self.readers.pop(0)
            await self.check(follower, user, start, all_of_it=False)
            await follower.close()

    async def forget(self, _user: str, keep: int) -> None:
        gone = self.log[: max(0, len(self.log) - keep)]
        if gone:
            await self.database.run(_forget, gone[-1][0])

    async def check(self, follower: Follower, user: str, start: Cursor, *, all_of_it: bool) -> None:
        expected = [name for cursor, whose, name in self.log if whose == user and cursor > start]
        forgotten = await self.database.read(forgotten_until)
        if all_of_it:
            # A reader that was ended sends one more frame, which says why.
            has_ended = follower.stream.subscriber.ended is not None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await follower.until(
                        lambda one: one.done.done() or (not has_ended and len(one.subjects) >= len(expected))
                    )
        got = follower.subjects
        assert got == expected[: len(got)], "in order, each once, none skipped"
        if follower.done.done():
            assert follower.frames[-1].event == "reset"
            # Also who was ahead of the feed, when the feed itself has missed something.
            assert min(start, follower.stream.subscriber.since) < forgotten, "nobody is sent away without need"
        elif all_of_it:
            assert got == expected


def _forget(tx: Transaction, until: Cursor) -> None:
    """Remove the beginning of the log as pruning does, whatever its age."""
    if tx.dialect == "sqlite":
        tx.sql("DELETE FROM events WHERE sequence <= ?", (until[1],))
    else:
        tx.sql("DELETE FROM events WHERE (transaction_id, sequence) <= (%s::text::xid8, %s)", until)
    tx.sql(prune.FORGET[tx.dialect], (*until, *until))


async def tell_the_story(database: Database, remembered: int, happened: list[tuple[str, str, int]]) -> None:
    story = Story(database, remembered)
    await story.begin()
    for what, user, number in happened:
        await getattr(story, what)(user, number)
    # A transaction of somebody else may keep the last ones back for a moment.
    async with asyncio.timeout(PATIENCE_SECONDS):
        while story.readers and story.log and story.desk.feed.place < story.log[-1][0]:
            await story.desk.feed.round()
    for follower, user, start in story.readers:
        await story.check(follower, user, start, all_of_it=True)
        await follower.close()
    assert not story.desk.feed._subscribers


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def module_database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """One database for all examples: each begins where the one before ended."""
    if request.param == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{Path(folder) / 'longtake.db'}"
            migrate_service(url)
            opened = open_database(url)
            yield opened
            opened.close()
        return
    server: PostgresqlServer = request.getfixturevalue("postgresql_server")
    url = server.new_database()
    opened = open_database(url)
    yield opened
    opened.close()
    server.drop_database(url)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@example(
    remembered=0,
    happened=[("join", "ann", 0), ("tell", "ann", 1), ("join", "ann", 1), ("forget", "ann", 0), ("look", "ann", 0)],
)
@given(remembered=st.sampled_from([0, 3, 1_000]), happened=st.lists(steps, max_size=25))
def test_each_reader_gets_exactly_what_came_after_its_place(
    module_database: Database, remembered: int, happened: list[tuple[str, str, int]]
) -> None:
    page, streams_module.PAGE = streams_module.PAGE, 3
    try:
        asyncio.run(tell_the_story(module_database, remembered, happened))
    finally:
        streams_module.PAGE = page
