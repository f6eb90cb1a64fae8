"""A file brought to the disk while it still grows, so that at its end there is little left to wait for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Callable

Ts = TypeVarTuple("Ts")

#: How much is written between two flushes. One that is still under way is not followed by another.
FLUSH_BYTES = 32 * 1024 * 1024


class Flushing:
    """One flush at a time, beside the writing.

    Its outcome is never dropped: the system reports that bytes could not be written to one flush only, and those
    after it succeed.
    """

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self._unflushed = 0
        self._under_way: asyncio.Task[None] | None = None

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
        self._under_way = asyncio.create_task(asyncio.to_thread(self._flush))

    async def end(self) -> None:
        """Wait for the flush under way, even when cancelled, and raise what it has met."""
        if self._under_way is not None:
            await finished(self._under_way)

    async def close(self) -> None:
        """Wait for the flush under way; what it has met no longer matters."""
        if self._under_way is not None:
            await asyncio.gather(self._under_way, return_exceptions=True)


async def to_its_end(call: Callable[[*Ts], Any], *arguments: *Ts) -> Any:
    """Call on a thread and wait for it, even when cancelled: a file must not be let go of while it is in use."""
    return await finished(asyncio.ensure_future(asyncio.to_thread(call, *arguments)))


async def finished(task: asyncio.Task[Any]) -> Any:
    """Wait for a task that cannot be stopped, even when cancelled."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
