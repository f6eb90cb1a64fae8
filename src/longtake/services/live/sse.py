"""Server-sent events: an event as bytes, encoded once for all its subscribers."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import orjson

from longtake.clock import iso_timestamp
from longtake.services.live.event_log import Cursor, write_cursor

if TYPE_CHECKING:
    from longtake.engine.events import Event

#: Milliseconds a browser waits before it reconnects.
OPENING = b"retry: 1000\n\n"


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
