"""Open streams: how many there may be, and what each of them sends from its first frame to its last."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longtake.errors import DatabaseError, TooManyStreams
from longtake.services.live.event_log import read_missed
from longtake.services.live.sse import OPENING, Reason, last_frame, place_frame
from longtake.services.live.subscriber import Reader, Wanted

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from longtake.clock import Clock
    from longtake.db import Database
    from longtake.services.live.cursors import Cursor
    from longtake.services.live.feed import Feed
    from longtake.services.live.sse import Told

PAGE = 500
RETRY_AFTER_SECONDS = 5


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How many streams may be open in this process, and how often each shows that it lives."""

    per_user: int = 20
    in_all: int = 5_000
    heartbeat_seconds: float = 15.0
    #: So often it is looked at whether the token or key still counts.
    check_seconds: float = 60.0


class Streams:
    """All streams of this process."""

    def __init__(self, database: Database, feed: Feed, clock: Clock, limits: StreamLimits | None = None) -> None:
        self.database = database
        self.feed = feed
        self.clock = clock
        self.limits = limits or StreamLimits()
        self._open: Counter[str] = Counter()

    async def open(
        self, user_id: str, start: Cursor | None, wanted: Wanted, still_valid: Callable[[], Awaitable[bool]]
    ) -> Stream:
        """Return a stream from the place on, or from now on; raises TooManyStreams. It has to be closed."""
        limits = self.limits
        if self._open[user_id] >= limits.per_user:
            message = "You have too many streams of events open."
            raise TooManyStreams(message, retry_after=RETRY_AFTER_SECONDS, limit=limits.per_user)
        if self._open.total() >= limits.in_all:
            message, hint = "This server has as many streams of events open as it may.", "Try again in a moment."
            raise TooManyStreams(message, hint=hint, retry_after=RETRY_AFTER_SECONDS, limit=limits.in_all)
        self._open[user_id] += 1
        try:
            return Stream(self, await self.feed.join(user_id, wanted, start), still_valid)
        except BaseException:
            self._count_down(user_id)
            raise

    def close(self, reader: Reader) -> None:
        """Forget a stream."""
        reader.close()
        self.feed.leave(reader)
        self._count_down(reader.user_id)

    def _count_down(self, user_id: str) -> None:
        self._open[user_id] -= 1
        if not self._open[user_id]:
            del self._open[user_id]


class Stream:
    """One reader's frames, in pieces to be sent."""

    def __init__(self, streams: Streams, reader: Reader, still_valid: Callable[[], Awaitable[bool]]) -> None:
        self._streams = streams
        self._still_valid = still_valid
        self.reader = reader

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Give what was missed, then what happens, until there is a reason to end."""
        yield OPENING + place_frame("ready", self.reader.start)
        async for piece in self._missed():
            yield piece
        async for piece in self._live():
            yield piece
        if self.reader.ended is not None:
            yield last_frame(self.reader.ended)

    def close(self) -> None:
        """Give up the place in the feed."""
        self._streams.close(self.reader)

    async def _missed(self) -> AsyncGenerator[bytes]:
        """Give what was told before this reader joined, up to where the feed was then."""
        reader = self.reader
        after, more = reader.start, True
        while more and reader.ended is None:
            try:
                page = await self._page(after)
            except DatabaseError:
                reader.end(Reason.UNAVAILABLE)
                return
            if page is None:
                reader.end(Reason.EVENTS_FORGOTTEN)
                return
            if frames := b"".join(told.frame for told in page if reader.wanted.has(told.type)):
                yield frames
            more = len(page) == PAGE
            after = page[-1].cursor if page else after

    async def _page(self, after: Cursor) -> list[Told] | None:
        """Return the next of what was missed: from memory, or else from the log; None when the log is not enough.

        The log is also asked when the reader is ahead of the feed: it may be at a place that was never reached.
        """
        reader = self.reader
        if reader.missed is not None:
            page, reader.missed = reader.missed[:PAGE], reader.missed[PAGE:]
            return page
        asking = (reader.user_id, after, reader.since, PAGE)
        return await self._streams.database.read(read_missed, *asking, as_user=reader.user_id)

    async def _live(self) -> AsyncGenerator[bytes]:
        """Give what happens, and a heartbeat now and then."""
        reader, clock, limits = self.reader, self._streams.clock, self._streams.limits
        now = clock.monotonic()
        beat_at, check_at = now + limits.heartbeat_seconds, now + limits.check_seconds
        while True:
            await reader.wait(beat_at - now)
            now = clock.monotonic()
            if now >= check_at:
                check_at = now + limits.check_seconds
                if not await self._still_valid():
                    reader.end(Reason.UNAUTHORIZED)
            if reader.ended is not None:
                return
            piece = reader.take()
            if now >= beat_at:
                beat_at = now + limits.heartbeat_seconds
                # All that was told up to the feed's place has just been taken.
                piece += place_frame("heartbeat", max(reader.start, self._streams.feed.place))
            if piece:
                yield piece
