"""The append-only log of what changed, written in the transaction that changed it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from longtake.db.dialects import POSTGRESQL, text_to_instant
from longtake.engine.queue_postgresql import arrays

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from longtake.db import Transaction


@dataclass(frozen=True, slots=True)
class Event:
    """Something that changed. The cursor is where reading goes on after it."""

    cursor: tuple[int, int]
    at: datetime
    type: str
    subject: str | None
    user_id: str | None
    data: Any


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

TELL_SQLITE = "INSERT INTO events (at, type, subject, user_id, data) VALUES (now(), ?, ?, ?, ?)"


def append_events(tx: Transaction, rows: Sequence[tuple[str, str | None, str | None, Any]]) -> None:
    """Write many events, each (type, subject, user id, data), in few statements: for what settles in batches."""
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


def read_events(tx: Transaction, after: tuple[int, int] = (0, 0), limit: int = 500) -> list[Event]:
    """Return the events after the cursor that no open transaction can still come before.

    On PostgreSQL an event with a smaller number may be committed later than one with a larger; readers stop below
    the oldest transaction that is still open, so that none is ever skipped.
    """
    if tx.dialect == POSTGRESQL:
        rows = tx.sql(READ_POSTGRESQL, (after[0], after[1], limit))
        return [Event((row[0], row[1]), *row[2:]) for row in rows]
    return [_from_sqlite(row) for row in tx.sql(READ_SQLITE, (after[1], limit))]


def _from_sqlite(row: tuple[Any, ...]) -> Event:
    data = None if row[6] is None else orjson.loads(row[6])
    return Event((row[0], row[1]), text_to_instant(row[2]), row[3], row[4], row[5], data)
