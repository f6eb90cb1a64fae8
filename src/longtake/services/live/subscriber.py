"""One who is told: a bounded queue between the feed and a connection."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from longtake.services.live.sse import Reason, Told

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from longtake.services.live.cursors import Cursor

MOST_WAITING = 1_000
MOST_WAITING_BYTES = 1_000_000
#: How long a connection may take to send its last words.
FAREWELL_SECONDS = 1.0


class Wanted:
    """Which types of events are wanted: `task.*` is all that begins so; none at all is every type."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        self._all = not patterns or "*" in patterns
        self._names = frozenset(one for one in patterns if not one.endswith("*"))
        self._beginnings = tuple(one[:-1] for one in patterns if one.endswith("*"))

    def has(self, kind: str) -> bool:
        """Say whether events of this type are wanted."""
        return self._all or kind in self._names or kind.startswith(self._beginnings)


class Reader:
    """Gets every wanted event after `since`; one that does not keep up is ended, and goes on later by its cursor."""

    def __init__(self, user_id: str, since: Cursor, wanted: Wanted, start: Cursor | None = None) -> None:
        self.user_id = user_id
        #: Where the feed was when it began to tell this reader: all before it is for catching up.
        self.since = since
        self.start = since if start is None else start
        #: What was told between the two, where that is known; else the log has it.
        self.missed: list[Told] | None = None
        self.wanted = wanted
        self.ended: Reason | None = None
        #: Ends a connection that cannot even take a farewell.
        self.hang_up: Callable[[], None] = lambda: None
        self._frames: list[bytes] = []
        self._bytes = 0
        self._wake = asyncio.Event()
        self._hanging_up: asyncio.TimerHandle | None = None

    def put(self, told: Told) -> None:
        """Hand an event over, unless the reader has it already or does not want it."""
        if self.ended is not None or told.cursor <= self.start or not self.wanted.has(told.type):
            return
        self._frames.append(told.frame)
        self._bytes += len(told.frame)
        if len(self._frames) > MOST_WAITING or self._bytes > MOST_WAITING_BYTES:
            self.end(Reason.TOO_SLOW)
        self._wake.set()

    def end(self, reason: Reason) -> None:
        """Tell it nothing more; the first reason counts."""
        if self.ended is None:
            self.ended = reason
            self._frames.clear()
            self._wake.set()
            self._hanging_up = asyncio.get_running_loop().call_later(FAREWELL_SECONDS, self._hang_up)

    async def wait(self, seconds: float) -> None:
        """Wait until there is something to take, or the end, or so many seconds have passed."""
        if not self._frames and self.ended is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
        self._wake.clear()

    def take(self) -> bytes:
        """Return all that waits, as one piece."""
        frames = b"".join(self._frames)
        self._frames.clear()
        self._bytes = 0
        return frames

    def close(self) -> None:
        """Let go of what is left; the connection is done."""
        self._frames.clear()
        if self._hanging_up is not None:
            self._hanging_up.cancel()
        self.hang_up = lambda: None

    def _hang_up(self) -> None:
        self.hang_up()
