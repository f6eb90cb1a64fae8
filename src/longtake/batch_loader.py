"""Questions that are asked in the same moment, made one.

A worker begins a hundred jobs at once, and each asks for its row: that is one question to the database, not a hundred
times a thread, a transaction and its round trips.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Gathered(Generic[K, V]):
    """Asks by key; the function is given all keys of one turn of the event loop, each once."""

    def __init__(self, function: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._function = function
        self._gathering: tuple[dict[K, None], asyncio.Task[Mapping[K, V]]] | None = None

    async def ask(self, key: K) -> V | None:
        """Return what there is under the key; None when there is nothing. An error reaches all who asked with us."""
        if self._gathering is None:
            keys: dict[K, None] = {}
            self._gathering = keys, asyncio.create_task(self._ask(keys))
        keys, answering = self._gathering
        keys[key] = None
        # One who is cancelled takes the answer from nobody else.
        return (await asyncio.shield(answering)).get(key)

    async def _ask(self, keys: Mapping[K, None]) -> Mapping[K, V]:
        # A task begins in the turn after the one that made it: whoever asks from now on is in the next.
        self._gathering = None
        return await self._function(list(keys))
