"""A subscriber: a bounded queue between the feed and one connection, of events encoded once for all subscribers."""

from __future__ import annotations

import asyncio
import contextlib
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import orjson

from longtake.clock import iso_timestamp
from longtake.services.live.event_log import Cursor, write_cursor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from longtake.engine.events import Event

#: Milliseconds a browser waits before it reconnects.
OPENING = b"retry: 1000\n\n"
MOST_WAITING = 1_000
MOST_WAITING_BYTES = 1_000_000
#: How long a connection may take to send its last frame.
LAST_FRAME_SECONDS = 1.0


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


class TypeFilter:
    """Selects event types: `task.*` matches all that begin so; no pattern at all matches every type."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        self._all = not patterns or "*" in patterns
        self._names = frozenset(one for one in patterns if not one.endswith("*"))
        self._beginnings = tuple(one[:-1] for one in patterns if one.endswith("*"))

    def matches(self, kind: str) -> bool:
        """Return whether events of this type are selected."""
        return self._all or kind in self._names or kind.startswith(self._beginnings)


class Subscriber:
    """Receives every selected event after `since`. One that is too slow is ended and can resume from its cursor."""

    def __init__(self, user_id: str, since: Cursor, type_filter: TypeFilter, start: Cursor | None = None) -> None:
        self.user_id = user_id
        #: Where the feed was when this subscriber joined; earlier events are read from the log.
        self.since = since
        self.start = since if start is None else start
        #: The events between `start` and `since` if they are in memory; else they are in the log.
        self.missed: list[EncodedEvent] | None = None
        self.type_filter = type_filter
        self.ended: EndReason | None = None
        #: Aborts a connection that does not even accept the last frame.
        self.hang_up: Callable[[], None] = lambda: None
        self._frames: list[bytes] = []
        self._bytes = 0
        self._wake = asyncio.Event()
        self._hang_up_timer: asyncio.TimerHandle | None = None

    def put(self, event: EncodedEvent) -> None:
        """Queue an event, unless the subscriber has it already or does not select it."""
        if self.ended is not None or event.cursor <= self.start or not self.type_filter.matches(event.type):
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
