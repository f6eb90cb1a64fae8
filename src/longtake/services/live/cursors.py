"""Where a reader of events is: the pair (transaction, sequence), as one word for callers to send back.

Whoever is at a cursor has seen every event up to it, and none that is still to come stands before it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from longtake.db.dialects import SQLITE
from longtake.engine.events import forgotten_until
from longtake.errors import InvalidCursor

if TYPE_CHECKING:
    from longtake.db import Transaction

Cursor = tuple[int, int]

#: As large as the columns are.
MOST = 2**63 - 1
_CURSOR = re.compile(r"([0-9]{1,19})\.([0-9]{1,19})")

OLDEST_OPEN = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
LAST_EVENT = """
SELECT transaction_id::text::bigint, sequence FROM events
WHERE transaction_id < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY events.transaction_id DESC, events.sequence DESC LIMIT 1
"""
# The table's rows may all be forgotten; the number that was given last is not.
LAST_SEQUENCE = "SELECT seq FROM sqlite_sequence WHERE name = 'events'"


def write_cursor(cursor: Cursor) -> str:
    """Write the place down."""
    return f"{cursor[0]}.{cursor[1]}"


def read_cursor(word: str) -> Cursor:
    """Read it back, or refuse what we never wrote."""
    match = _CURSOR.fullmatch(word)
    if match is None or max(place := (int(match[1]), int(match[2]))) > MOST:
        raise InvalidCursor(
            "The cursor is not one that the stream or the snapshot has given.",
            hint="Send the last event's id as it is, or none to begin with what happens from now on.",
        )
    return place


def reached(tx: Transaction) -> Cursor:
    """Return the place up to where the log may go now: a cursor beyond it is of another log."""
    if tx.dialect == SQLITE:
        found = tx.sql(LAST_SEQUENCE)
        return (0, found[0][0] if found else 0)
    # Transactions before the oldest open one have all ended; events of that one and of later ones come after.
    return (tx.sql(OLDEST_OPEN)[0][0], 0)


def current_place(tx: Transaction) -> Cursor:
    """Return the place such that every event up to it is visible to this transaction, whoever wrote it.

    On PostgreSQL it is that of an event: what is visible is on the disk. A number that only was given may be given once
    more after the server has crashed, and what happened under it then would lie before the place.
    """
    if tx.dialect == SQLITE:
        return reached(tx)
    return max([forgotten_until(tx), *((row[0], row[1]) for row in tx.sql(LAST_EVENT))])


def current_cursor(tx: Transaction) -> str:
    """Return the cursor of this moment: the stream from here brings every event that the transaction does not see.

    Read it before the rest, and not as a user, who would see only the last event of their own. Some of what is read
    then may come once more.
    """
    return write_cursor(current_place(tx))
