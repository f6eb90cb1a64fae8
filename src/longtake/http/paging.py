"""Cursors of lists: where the next page begins, as one word that callers send back unchanged."""

import uuid
from datetime import UTC, datetime

from longtake.errors import InvalidCursor

#: Where a list goes on: the time of its last row, and that row's id where two have the same.
Cursor = tuple[datetime, str]


def write_cursor(cursor: Cursor) -> str:
    """Write the place down: microseconds since 1970, and an id."""
    moment, conversation_id = cursor
    seconds = moment.replace(microsecond=0).timestamp()
    return f"{int(seconds) * 1_000_000 + moment.microsecond}_{conversation_id}"


def read_cursor(word: str) -> Cursor:
    """Read it back, or refuse what we never wrote."""
    microseconds, _line, conversation_id = word.partition("_")
    try:
        seconds, rest = divmod(int(microseconds), 1_000_000)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest), str(uuid.UUID(conversation_id))
    except (ValueError, OverflowError, OSError):
        raise InvalidCursor("before is not a cursor that a list here has given.") from None
