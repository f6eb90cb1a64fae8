"""A file brought to the disk while it still grows, so that at its end there is little left to wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

#: How much is written between two flushes. One that is still under way is not followed by another.
FLUSH_BYTES = 32 * 1024 * 1024


class Flushing:
    """One flush at a time, beside the writing; `begin` starts one on a thread.

    Its outcome is never dropped while the file is wanted: the system reports that bytes could not be written to one
    flush only, and those after it succeed.
    """

    def __init__(self, begin: Callable[[], asyncio.Future[Any]]) -> None:
        self._begin = begin
        self._unflushed = 0
        self._under_way: asyncio.Future[Any] | None = None

    def wrote(self, number: int) -> None:
        """Count what was written; begin a flush when it is time. Raises what an earlier one has met."""
        self._unflushed += number
        if self._unflushed < FLUSH_BYTES:
            return
        if self._under_way is not None:
            if not self._under_way.done():
                return
            self._under_way.result()
        self._unflushed = 0
        self._under_way = self._begin()
        # A file that is given up for another reason asks no more.
        self._under_way.add_done_callback(_look_at)

    async def end(self) -> None:
        """Wait for the flush under way, and raise what it has met."""
        if self._under_way is not None:
            await self._under_way


def _look_at(flush: asyncio.Future[Any]) -> None:
    if not flush.cancelled():
        flush.exception()
