"""Clocks, passed in wherever time matters so that tests control it; timestamps and identifiers."""

import os
import time
import uuid
from datetime import UTC, datetime
from typing import Protocol, overload


class Clock(Protocol):
    """Tells the time, and measures how much of it has passed."""

    def now(self) -> datetime:
        """Return the wall clock's time, in UTC. It may jump."""

    def monotonic(self) -> float:
        """Return seconds that never go back, for measuring durations."""


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


@overload
def iso_timestamp(moment: datetime, timespec: str = "auto") -> str: ...
@overload
def iso_timestamp(moment: datetime | None, timespec: str = "auto") -> str | None: ...
def iso_timestamp(moment: datetime | None, timespec: str = "auto") -> str | None:
    """Return a time as the API writes it, in UTC with a `Z` at the end; None stays None."""
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def new_id() -> str:
    """Return a UUIDv7. Later ids sort later, so new rows go to the end of every index.

    The 12 bits after the milliseconds hold the fraction of the millisecond, so that ids that one process makes in quick
    succession stay in order.
    """
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    fraction = (rest << 12) // 1_000_000
    value = milliseconds << 80 | 7 << 76 | fraction << 64 | 2 << 62 | int.from_bytes(os.urandom(8)) >> 2
    return str(uuid.UUID(int=value))
