"""Reads that are asked for in the same moment, made one.

A worker begins a hundred jobs at once, and each asks for its row: that is one question to the database, not a hundred
times a thread, a transaction and its round trips.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from longtake.db.database import Database, Transaction

K = TypeVar("K")
V = TypeVar("V")


class GatheredReads(Generic[K, V]):
    """Reads by key; the function is given all keys of one turn of the event loop, each once."""

    def __init__(self, database: Database, function: Callable[[Transaction, Sequence[K]], Mapping[K, V]]) -> None:
        self._database = database
        self._function = function
        self._gathering: tuple[dict[K, None], asyncio.Task[Mapping[K, V]]] | None = None

    async def read(self, key: K) -> V | None:
        """Return what there is under the key; None when there is nothing. An error reaches all who asked with us."""
        if self._gathering is None:
            keys: dict[K, None] = {}
            self._gathering = keys, asyncio.create_task(self._read(keys))
        keys, reading = self._gathering
        keys[key] = None
        # One who is cancelled takes the answer from nobody else.
        return (await asyncio.shield(reading)).get(key)

    async def _read(self, keys: Mapping[K, None]) -> Mapping[K, V]:
        # A task begins in the turn after the one that made it: whoever asks from now on is in the next.
        self._gathering = None
        return await self._database.read(self._function, list(keys))
