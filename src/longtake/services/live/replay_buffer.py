"""What was told a moment ago, kept for readers who were away only as long."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longtake.services.live.cursors import Cursor
    from longtake.services.live.sse import Told

MOST_EVENTS = 10_000
MOST_BYTES = 8_000_000


class Recent:
    """Every event after the floor is here; the floor rises when there would be too many of them."""

    def __init__(self, most_events: int = MOST_EVENTS, most_bytes: int = MOST_BYTES) -> None:
        self._most_events = most_events
        self._most_bytes = most_bytes
        self._told: deque[Told] = deque()
        self._bytes = 0
        self.floor: Cursor = (0, 0)

    def begin(self, place: Cursor) -> None:
        """Forget everything: what comes from here on will be kept."""
        self._told.clear()
        self._bytes = 0
        self.floor = place

    def add(self, told: Told) -> None:
        """Keep one more, at the cost of the oldest."""
        self._told.append(told)
        self._bytes += len(told.frame)
        while len(self._told) > self._most_events or self._bytes > self._most_bytes:
            oldest = self._told.popleft()
            self._bytes -= len(oldest.frame)
            self.floor = oldest.cursor

    def of(self, user_id: str, after: Cursor) -> list[Told] | None:
        """Return the user's events after the place; None when not all of them are here."""
        if after < self.floor:
            return None
        found: list[Told] = []
        for told in reversed(self._told):
            if told.cursor <= after:
                break
            if told.user_id == user_id:
                found.append(told)
        return found[::-1]
