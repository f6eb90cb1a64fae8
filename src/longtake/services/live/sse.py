"""Events as server-sent events: bytes, made once for all who read them."""

from __future__ import annotations

from datetime import UTC
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import orjson

from longtake.services.live.cursors import Cursor, write_cursor

if TYPE_CHECKING:
    from longtake.engine.events import Event

#: How long a browser waits before it connects again.
OPENING = b"retry: 1000\n\n"


class Reason(StrEnum):
    """Why a stream ends."""

    SERVER_STOPPING = "SERVER_STOPPING"
    UNAUTHORIZED = "UNAUTHORIZED"
    TOO_SLOW = "TOO_SLOW"
    EVENTS_FORGOTTEN = "EVENTS_FORGOTTEN"
    #: What was missed cannot be read now.
    UNAVAILABLE = "UNAVAILABLE"
    #: Nobody is there any more to be told.
    CLIENT_GONE = "CLIENT_GONE"


class Told(NamedTuple):
    """An event of a user, ready to be sent."""

    cursor: Cursor
    user_id: str
    type: str
    frame: bytes


def tell(event: Event) -> Told:
    """Make the frame of an event; it belongs to a user."""
    cursor = event.place
    shown = {
        "cursor": cursor,
        "type": event.type,
        "at": event.at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "subject": event.subject,
        "data": event.data,
    }
    frame = b"id: %b\nevent: %b\ndata: %b\n\n" % (cursor.encode(), event.type.encode(), orjson.dumps(shown))
    return Told(event.cursor, event.user_id or "", event.type, frame)


def place_frame(name: str, place: Cursor) -> bytes:
    """Make a frame that only says where the reader is: `ready` or `heartbeat`."""
    cursor = write_cursor(place)
    return b'event: %b\nid: %b\ndata: {"cursor":"%b"}\n\n' % (name.encode(), cursor.encode(), cursor.encode())


def last_frame(reason: Reason) -> bytes:
    """Make the frame after which the stream ends."""
    name = b"reset" if reason is Reason.EVENTS_FORGOTTEN else b"farewell"
    return b'event: %b\ndata: {"reason":"%b"}\n\n' % (name, reason.encode())
