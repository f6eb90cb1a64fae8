"""The append-only log of what changed, written in the transaction that changed it.

Types of events for users are registered by packages: `event_types` in each `capability.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from longtake.db import Transaction
from longtake.db.dialects import POSTGRESQL, SQLITE, text_to_instant
from longtake.engine.queue_postgresql import arrays

#: Told once events of users are durable.
TOPIC = "events"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that changed. The cursor is where reading goes on after it."""

    cursor: tuple[int, int]
    at: datetime
    type: str
    subject: str | None
    user_id: str | None
    data: Any

    @property
    def place(self) -> str:
        """The cursor as callers see it, on the stream and in webhooks."""
        return f"{self.cursor[0]}.{self.cursor[1]}"


def is_held_up(tx: Transaction) -> bool:
    """Say whether events are committed that cannot be read before an older transaction, still open, has ended."""
    return tx.dialect == POSTGRESQL and bool(tx.sql(HELD_UP)[0][0])


# What is numbered after every transaction of this server came from another server with a copy of the database: no one
# is to be waited for.
HELD_UP = """
SELECT EXISTS (
    SELECT FROM events
    WHERE transaction_id >= pg_snapshot_xmin(pg_current_snapshot())
      AND transaction_id < pg_snapshot_xmax(pg_current_snapshot())
      AND user_id IS NOT NULL
)
"""


def append_event(
    tx: Transaction,
    type: str,  # noqa: A002 - the column's name
    *,
    subject: str | None = None,
    user_id: str | None = None,
    data: Any = None,
) -> None:
    """Write one event; it becomes visible with all else that the transaction did."""
    append_events(tx, [(type, subject, user_id, data)])


TELL_POSTGRESQL = """
INSERT INTO events (type, subject, user_id, data)
SELECT type, subject, user_id, data::jsonb
FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[]) AS new(type, subject, user_id, data)
"""

TELL_SQLITE = "INSERT INTO events (at, type, subject, user_id, data) VALUES (longtake_now(), ?, ?, ?, ?)"


def append_events(tx: Transaction, rows: Sequence[tuple[str, str | None, str | None, Any]]) -> None:
    """Write many events, each (type, subject, user id, data), in few statements: for what settles in batches."""
    if any(user_id is not None for _kind, _subject, user_id, _data in rows):
        tx.signal(TOPIC)
    written = [
        (kind, subject, user_id, None if data is None else orjson.dumps(data).decode())
        for kind, subject, user_id, data in rows
    ]
    if written and tx.dialect == POSTGRESQL:
        tx.sql(TELL_POSTGRESQL, arrays(written))
    elif written:
        tx.sql_many(TELL_SQLITE, written)


READ_POSTGRESQL = """
SELECT transaction_id::text::bigint, sequence, at, type, subject, user_id, data FROM events
WHERE (transaction_id, sequence) > (%s::text::xid8, %s) AND transaction_id < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY events.transaction_id, events.sequence LIMIT %s
"""

READ_SQLITE = """
SELECT transaction_id, sequence, at, type, subject, user_id, data FROM events
WHERE sequence > ? ORDER BY sequence LIMIT ?
"""

READ_USER_POSTGRESQL = """
SELECT transaction_id::text::bigint, sequence, at, type, subject, user_id, data FROM events
WHERE user_id = %s AND (transaction_id, sequence) > (%s::text::xid8, %s)
  AND (transaction_id, sequence) <= (%s::text::xid8, %s) AND transaction_id < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY events.transaction_id, events.sequence LIMIT %s
"""

# The transaction's number is always 0 here; it is asked for because it stands in the index.
READ_USER_SQLITE = """
SELECT transaction_id, sequence, at, type, subject, user_id, data FROM events
WHERE user_id = ? AND transaction_id = 0 AND sequence > ? AND sequence <= ? ORDER BY sequence LIMIT ?
"""

# A number of this server's past: one that a copied database brought from another server says nothing here.
FORGOTTEN = {
    SQLITE: "SELECT transaction_id, sequence FROM events_forgotten",
    POSTGRESQL: """
SELECT transaction_id, sequence FROM events_forgotten
WHERE transaction_id < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
""",
}


def read_events(tx: Transaction, after: tuple[int, int] = (0, 0), limit: int = 500) -> list[Event]:
    """Return the events after the cursor that no open transaction can still come before.

    On PostgreSQL an event with a smaller number may be committed later than one with a larger; readers stop below
    the oldest transaction that is still open, so that none is ever skipped.
    """
    if tx.dialect == POSTGRESQL:
        return [Event(row[:2], *row[2:]) for row in tx.sql(READ_POSTGRESQL, (*after, limit))]
    return [_from_sqlite(row) for row in tx.sql(READ_SQLITE, (after[1], limit))]


def read_events_of(
    tx: Transaction, user_id: str, after: tuple[int, int], until: tuple[int, int], limit: int
) -> list[Event]:
    """Return one user's events after a cursor and up to another, by the index that is kept for it."""
    if tx.dialect == POSTGRESQL:
        return [Event(row[:2], *row[2:]) for row in tx.sql(READ_USER_POSTGRESQL, (user_id, *after, *until, limit))]
    return [_from_sqlite(row) for row in tx.sql(READ_USER_SQLITE, (user_id, after[1], until[1], limit))]


def forgotten_until(tx: Transaction) -> tuple[int, int]:
    """Return the cursor of the last event that was removed: a reader before it has missed something."""
    rows = tx.sql(FORGOTTEN[tx.dialect])
    return (rows[0][0], rows[0][1]) if rows else (0, 0)


def _from_sqlite(row: tuple[Any, ...]) -> Event:
    data = None if row[6] is None else orjson.loads(row[6])
    return Event((row[0], row[1]), text_to_instant(row[2]), row[3], row[4], row[5], data)


def patterns_of(types: Sequence[str]) -> tuple[str, ...]:
    """Return all that streams and webhooks can ask for: the types, and each family such as `task.*`."""
    return (*types, *dict.fromkeys(f"{one.partition('.')[0]}.*" for one in types))


def check_pattern(pattern: str, known: Sequence[str]) -> str:
    """Return it; raises ValueError for one that nothing could ever match, such as a misspelt type."""
    if pattern not in known:
        raise ValueError(f"names {pattern[:60]!r}, which is not a type of event; the types are {', '.join(known)}")
    return pattern


def selects(patterns: Sequence[str], kind: str) -> bool:
    """Return whether these patterns ask for events of this type; no pattern at all asks for every type."""
    return not patterns or "*" in patterns or kind in patterns or f"{kind.partition('.')[0]}.*" in patterns
