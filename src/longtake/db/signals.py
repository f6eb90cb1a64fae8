"""Hints that something changed, which save the wait for the next poll. They may be lost: polling is the truth."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine


class Signals:
    """Delivers topics to subscribers in this process; a database that others share passes them on."""

    def __init__(self) -> None:
        self._subscribers: list[Callable[[str], None]] = []
        self._lock = threading.Lock()

    def subscribe(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call back with each topic, on any thread; return the way to stop that."""
        with self._lock:
            self._subscribers = [*self._subscribers, callback]

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers = [one for one in self._subscribers if one is not callback]

        return unsubscribe

    @asynccontextmanager
    async def heeded(self, topic: str, wake: asyncio.Event, rounds: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        """Let `rounds` go on until the block ends; `wake` is set whenever the topic is heard."""
        loop = asyncio.get_running_loop()

        def heard(one: str) -> None:
            if one == topic:
                loop.call_soon_threadsafe(wake.set)

        unsubscribe = self.subscribe(heard)
        task = asyncio.create_task(rounds)
        try:
            yield
        finally:
            unsubscribe()
            task.cancel()
            await asyncio.wait([task])

    def send(self, topic: str) -> None:
        """Tell this process and all others that share the database."""
        self.deliver(topic)

    def deliver(self, topic: str) -> None:
        """Tell the subscribers in this process."""
        for callback in self._subscribers:
            callback(topic)

    def close(self) -> None:
        """Stop passing signals on."""
