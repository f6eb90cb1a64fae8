"""The part of a file that a request wants: one range of bytes, as players and resumed downloads ask for it."""

from __future__ import annotations

import re

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.IGNORECASE)


class RangeNotSatisfiable(Exception):
    """The range begins after the end of the file."""


def wanted_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return start and end (exclusive) of the part that is wanted; None for the whole file.

    What is not one range of bytes (several ranges, other units, nonsense) is answered with the whole file, which HTTP
    always allows.
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or match[1] == match[2] == "":
        return None
    first, last = match[1], match[2]
    if first == "":
        start, end = max(size - int(last), 0), size
    else:
        start, end = int(first), size if last == "" else min(int(last) + 1, size)
        if last and int(last) < start:
            return None
    if start >= end:
        raise RangeNotSatisfiable
    return start, end
