"""Cursors of lists: where the next page begins, as one word that callers send back unchanged."""

import uuid
from datetime import UTC, datetime

from longtake.http.errors import InvalidCursor

#: Where the next page begins: the time of the last row, and its id, because two rows may have the same time.
Cursor = tuple[datetime, str]


def write_cursor(cursor: Cursor) -> str:
    """Return the cursor as one word: microseconds since 1970, and an id."""
    moment, row_id = cursor
    seconds = moment.replace(microsecond=0).timestamp()
    return f"{int(seconds) * 1_000_000 + moment.microsecond}_{row_id}"


def read_cursor(word: str) -> Cursor:
    """Return the cursor of a word that `write_cursor` returned; raises InvalidCursor for any other."""
    microseconds, _separator, row_id = word.partition("_")
    try:
        seconds, rest = divmod(int(microseconds), 1_000_000)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest), str(uuid.UUID(row_id))
    except (ValueError, OverflowError, OSError):
        raise InvalidCursor("Invalid cursor in before. Pass back `next` unchanged.") from None
