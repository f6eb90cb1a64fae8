"""Reads the log of events from a cursor: the pair (transaction, sequence), which callers send back as one word.

A client at a cursor has seen every event up to it, and no later event is ever written before it.
"""

import re
from dataclasses import dataclass, field

from longtake.db import Transaction
from longtake.db.dialects import SQLITE
from longtake.engine.events import Event, forgotten_until, is_held_up, read_events
from longtake.http.errors import InvalidCursor

Cursor = tuple[int, int]

#: The largest value the columns can hold.
MOST = 2**63 - 1
_CURSOR = re.compile(r"([0-9]{1,19})\.([0-9]{1,19})")

OLDEST_OPEN = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
LAST_EVENT = """
SELECT transaction_id::text::bigint, sequence FROM events
WHERE transaction_id < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY events.transaction_id DESC, events.sequence DESC LIMIT 1
"""
# All rows may have been deleted; the last number assigned is kept.
LAST_SEQUENCE = "SELECT seq FROM sqlite_sequence WHERE name = 'events'"


def write_cursor(cursor: Cursor) -> str:
    """Return the cursor as one word."""
    return f"{cursor[0]}.{cursor[1]}"


def read_cursor(word: str) -> Cursor:
    """Return the cursor of a word that `write_cursor` returned; raises InvalidCursor for any other."""
    match = _CURSOR.fullmatch(word)
    if match is None or max(place := (int(match[1]), int(match[2]))) > MOST:
        raise InvalidCursor(
            "This cursor comes neither from the stream nor from the snapshot.",
            hint="Send the id of the last event unchanged, or no cursor to start from now.",
        )
    return place


def log_end(tx: Transaction) -> Cursor:
    """Return the furthest the log may reach now: a cursor beyond it belongs to another log."""
    if tx.dialect == SQLITE:
        found = tx.sql(LAST_SEQUENCE)
        return (0, found[0][0] if found else 0)
    # All transactions before the oldest open one have ended; its events and later ones come after.
    return (tx.sql(OLDEST_OPEN)[0][0], 0)


def current_place(tx: Transaction) -> Cursor:
    """Return the cursor up to which every event, by any writer, is visible to this transaction.

    On PostgreSQL it is the cursor of an event, because a visible event is on disk. A number that was only assigned may
    be assigned again after a crash, and events written under it then would come before the cursor.
    """
    if tx.dialect == SQLITE:
        return log_end(tx)
    return max([forgotten_until(tx), *((row[0], row[1]) for row in tx.sql(LAST_EVENT))])


def current_cursor(tx: Transaction) -> str:
    """Return the cursor of now: a stream from here sends every event that this transaction does not see.

    Read it before other data, so that no change is lost; the stream may repeat some of them. Do not read it as a user:
    row security would hide other users' events.
    """
    return write_cursor(current_place(tx))


@dataclass(frozen=True, slots=True)
class LogPage:
    """The events that one read of the log found."""

    #: Everything up to here has been read.
    place: Cursor
    events: list[Event] = field(default_factory=list)
    #: More events can be read at once.
    more: bool = False
    #: More events exist, but must not be read before an open transaction has ended.
    stalled: bool = False
    #: The events after the requested cursor are unknown: they were deleted, or the cursor is of another log.
    broken: bool = False


def read_page(tx: Transaction, after: Cursor, limit: int) -> LogPage:
    """Return the events after a cursor, and the cursor to continue from."""
    if after < forgotten_until(tx) or after > log_end(tx):
        return LogPage(current_place(tx), broken=True)
    events = read_events(tx, after, limit)
    # Up to the last event, not up to now: an event is on disk, while a server that crashes may assign the numbers of
    # transactions that wrote nothing a second time.
    place = events[-1].cursor if events else after
    if len(events) == limit:
        return LogPage(place, events, more=True)
    return LogPage(place, events, stalled=is_held_up(tx))
