"""Open streams: how many are allowed, and what each one sends, from its first frame to its last."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longtake.engine.events import forgotten_until, read_events_of
from longtake.errors import DatabaseError, TooManyStreams
from longtake.services.live.event_log import log_end
from longtake.services.live.subscriber import (
    OPENING,
    EncodedEvent,
    EndReason,
    Subscriber,
    TypeFilter,
    encode_event,
    last_frame,
    place_frame,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from longtake.clock import Clock
    from longtake.db import Database, Transaction
    from longtake.services.live.event_log import Cursor
    from longtake.services.live.feed import Feed

PAGE = 500
RETRY_AFTER_SECONDS = 5


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How many streams may be open in this process, and how often each sends a heartbeat."""

    per_user: int = 20
    in_all: int = 5_000
    heartbeat_seconds: float = 15.0
    #: How often the token or key is checked again.
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
        self, user_id: str, start: Cursor | None, type_filter: TypeFilter, still_valid: Callable[[], Awaitable[bool]]
    ) -> Stream:
        """Return a stream from a cursor, or from now; raises TooManyStreams. The caller must close it."""
        limits = self.limits
        if self._open[user_id] >= limits.per_user:
            message = "You have too many event streams open."
            raise TooManyStreams(message, retry_after=RETRY_AFTER_SECONDS, limit=limits.per_user)
        if self._open.total() >= limits.in_all:
            message, hint = "Too many event streams are open on this server.", "Try again in a moment."
            raise TooManyStreams(message, hint=hint, retry_after=RETRY_AFTER_SECONDS, limit=limits.in_all)
        self._open[user_id] += 1
        try:
            return Stream(self, await self.feed.join(user_id, type_filter, start), still_valid)
        except BaseException:
            self._count_down(user_id)
            raise

    def close(self, subscriber: Subscriber) -> None:
        """Close the stream of a subscriber."""
        subscriber.close()
        self.feed.leave(subscriber)
        self._count_down(subscriber.user_id)

    def _count_down(self, user_id: str) -> None:
        self._open[user_id] -= 1
        if not self._open[user_id]:
            del self._open[user_id]


class Stream:
    """The frames of one subscriber, in chunks to send."""

    def __init__(self, streams: Streams, subscriber: Subscriber, still_valid: Callable[[], Awaitable[bool]]) -> None:
        self._streams = streams
        self._still_valid = still_valid
        self.subscriber = subscriber

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the missed events, then live ones, until there is a reason to end."""
        yield OPENING + place_frame("ready", self.subscriber.start)
        async for chunk in self._missed():
            yield chunk
        async for chunk in self._live():
            yield chunk
        if self.subscriber.ended is not None:
            yield last_frame(self.subscriber.ended)

    def close(self) -> None:
        """Leave the feed."""
        self._streams.close(self.subscriber)

    async def _missed(self) -> AsyncGenerator[bytes]:
        """Yield the events from before this subscriber joined, up to where the feed was then."""
        subscriber = self.subscriber
        after, more = subscriber.start, True
        while more and subscriber.ended is None:
            try:
                page = await self._page(after)
            except DatabaseError:
                subscriber.end(EndReason.UNAVAILABLE)
                return
            if page is None:
                subscriber.end(EndReason.EVENTS_FORGOTTEN)
                return
            if frames := b"".join(event.frame for event in page if subscriber.type_filter.matches(event.type)):
                yield frames
            more = len(page) == PAGE
            after = page[-1].cursor if page else after

    async def _page(self, after: Cursor) -> list[EncodedEvent] | None:
        """Return the next missed events, from memory or else from the log; None when the log no longer has them all.

        The log is also read when the cursor is ahead of the feed: the log may never have reached it.
        """
        subscriber = self.subscriber
        if subscriber.missed is not None:
            page, subscriber.missed = subscriber.missed[:PAGE], subscriber.missed[PAGE:]
            return page
        arguments = (subscriber.user_id, after, subscriber.since, PAGE)
        return await self._streams.database.read(read_missed, *arguments, as_user=subscriber.user_id)

    async def _live(self) -> AsyncGenerator[bytes]:
        """Yield live events, and heartbeats in between."""
        subscriber, clock, limits = self.subscriber, self._streams.clock, self._streams.limits
        now = clock.monotonic()
        beat_at, check_at = now + limits.heartbeat_seconds, now + limits.check_seconds
        while True:
            await subscriber.wait(beat_at - now)
            now = clock.monotonic()
            if now >= check_at:
                check_at = now + limits.check_seconds
                if not await self._still_valid():
                    subscriber.end(EndReason.UNAUTHORIZED)
            if subscriber.ended is not None:
                return
            chunk = subscriber.take()
            if now >= beat_at:
                beat_at = now + limits.heartbeat_seconds
                # All events up to the feed's place have just been taken.
                chunk += place_frame("heartbeat", max(subscriber.start, self._streams.feed.place))
            if chunk:
                yield chunk


def read_missed(tx: Transaction, user_id: str, after: Cursor, until: Cursor, limit: int) -> list[EncodedEvent] | None:
    """Return the user's events after one cursor and up to another; None when they are no longer known.

    Both checks belong into the transaction that reads: events may be deleted meanwhile, and a cursor beyond the end of
    the log is of another log.
    """
    if after < forgotten_until(tx) or after > log_end(tx):
        return None
    return [encode_event(event) for event in read_events_of(tx, user_id, after, until, limit)]
