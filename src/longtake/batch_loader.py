"""Loads of single keys at the same moment, combined into one batch.

A worker starts a hundred jobs at once, and each loads its row. A batch loader makes that one read of the database
instead of a hundred threads, transactions and round trips.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BatchLoader(Generic[K, V]):
    """Loads values by key. The function gets all keys of one turn of the event loop, once each."""

    def __init__(self, function: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._function = function
        self._batch: tuple[dict[K, None], asyncio.Task[Mapping[K, V]]] | None = None

    async def load(self, key: K) -> V | None:
        """Return the value of the key, or None. An error reaches every caller of the same batch."""
        if self._batch is None:
            keys: dict[K, None] = {}
            self._batch = keys, asyncio.create_task(self._load(keys))
        keys, loading = self._batch
        keys[key] = None
        # A cancelled caller must not cancel the load of the others.
        return (await asyncio.shield(loading)).get(key)

    async def _load(self, keys: Mapping[K, None]) -> Mapping[K, V]:
        # A task starts in the turn after the one that created it: from here on keys belong to the next batch.
        self._batch = None
        return await self._function(list(keys))
