"""Open streams: how many are allowed, what waits for each connection, and what it is sent, from first frame to last."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import orjson

from longtake.clock import Clock, iso_timestamp
from longtake.db import Database, Transaction
from longtake.db.errors import DatabaseError
from longtake.engine.events import Event, forgotten_until, read_events_of, selects
from longtake.services.live.errors import TooManyStreams
from longtake.services.live.event_log import Cursor, log_end, write_cursor

if TYPE_CHECKING:
    from longtake.services.live.feed import Feed

#: Milliseconds a browser waits before it reconnects.
OPENING = b"retry: 1000\n\n"
MOST_WAITING = 1_000
MOST_WAITING_BYTES = 1_000_000
#: How long a connection may take to send its last frame.
LAST_FRAME_SECONDS = 1.0
PAGE = 500
RETRY_AFTER_SECONDS = 5


class EndReason(StrEnum):
    """Why a stream ends."""

    SERVER_STOPPING = "SERVER_STOPPING"
    UNAUTHORIZED = "UNAUTHORIZED"
    TOO_SLOW = "TOO_SLOW"
    EVENTS_FORGOTTEN = "EVENTS_FORGOTTEN"
    #: Missed events cannot be read now.
    UNAVAILABLE = "UNAVAILABLE"
    #: The client has disconnected.
    CLIENT_GONE = "CLIENT_GONE"


class EncodedEvent(NamedTuple):
    """One user's event, ready to send."""

    cursor: Cursor
    user_id: str
    type: str
    frame: bytes


def encode_event(event: Event) -> EncodedEvent:
    """Return an event that belongs to a user as a frame."""
    cursor = event.place
    shown = {
        "cursor": cursor,
        "type": event.type,
        "at": iso_timestamp(event.at, "microseconds"),
        "subject": event.subject,
        "data": event.data,
    }
    frame = b"id: %b\nevent: %b\ndata: %b\n\n" % (cursor.encode(), event.type.encode(), orjson.dumps(shown))
    return EncodedEvent(event.cursor, event.user_id or "", event.type, frame)


def place_frame(name: str, place: Cursor) -> bytes:
    """Return a frame that carries only the cursor: `ready` or `heartbeat`."""
    cursor = write_cursor(place)
    return b'event: %b\nid: %b\ndata: {"cursor":"%b"}\n\n' % (name.encode(), cursor.encode(), cursor.encode())


def last_frame(reason: EndReason) -> bytes:
    """Return the last frame of a stream, which names why it ends."""
    name = b"reset" if reason is EndReason.EVENTS_FORGOTTEN else b"farewell"
    return b'event: %b\ndata: {"reason":"%b"}\n\n' % (name, reason.encode())


class Subscriber:
    """A bounded queue between the feed and one connection: every selected event after `since`.

    One that is too slow is ended and can resume from its cursor.
    """

    def __init__(self, user_id: str, since: Cursor, types: Sequence[str], start: Cursor | None = None) -> None:
        self.user_id = user_id
        #: Where the feed was when this subscriber joined; earlier events are read from the log.
        self.since = since
        self.start = since if start is None else start
        #: The events between `start` and `since` if they are in memory; else they are in the log.
        self.missed: list[EncodedEvent] | None = None
        self.types = types
        self.ended: EndReason | None = None
        #: Aborts a connection that does not even accept the last frame.
        self.hang_up: Callable[[], None] = lambda: None
        self._frames: list[bytes] = []
        self._bytes = 0
        self._wake = asyncio.Event()
        self._hang_up_timer: asyncio.TimerHandle | None = None

    def put(self, event: EncodedEvent) -> None:
        """Queue an event, unless the subscriber has it already or does not select it."""
        if self.ended is not None or event.cursor <= self.start or not selects(self.types, event.type):
            return
        self._frames.append(event.frame)
        self._bytes += len(event.frame)
        if len(self._frames) > MOST_WAITING or self._bytes > MOST_WAITING_BYTES:
            self.end(EndReason.TOO_SLOW)
        self._wake.set()

    def end(self, reason: EndReason) -> None:
        """Send nothing more but the reason; the first reason counts."""
        if self.ended is None:
            self.ended = reason
            self._frames.clear()
            self._wake.set()
            self._hang_up_timer = asyncio.get_running_loop().call_later(LAST_FRAME_SECONDS, self._hang_up)

    async def wait(self, seconds: float) -> None:
        """Wait until a frame is queued, the subscriber has ended, or `seconds` have passed."""
        if not self._frames and self.ended is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
        self._wake.clear()

    def take(self) -> bytes:
        """Remove all queued frames and return them as one chunk."""
        frames = b"".join(self._frames)
        self._frames.clear()
        self._bytes = 0
        return frames

    def close(self) -> None:
        """Drop what is queued: the connection is closed."""
        self._frames.clear()
        if self._hang_up_timer is not None:
            self._hang_up_timer.cancel()
        self.hang_up = lambda: None

    def _hang_up(self) -> None:
        self.hang_up()


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
        self, user_id: str, start: Cursor | None, types: Sequence[str], still_valid: Callable[[], Awaitable[bool]]
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
            return Stream(self, await self.feed.join(user_id, types, start), still_valid)
        except BaseException:
            self._count_down(user_id)
            raise

    def close(self, subscriber: Subscriber) -> None:
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
            if frames := b"".join(event.frame for event in page if selects(subscriber.types, event.type)):
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
