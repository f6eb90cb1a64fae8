"""Hints that something changed, so that nobody waits for the next poll. They may be lost: polling is the truth."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


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

    def send(self, topic: str) -> None:
        """Tell this process, and whoever else shares the database."""
        self.deliver(topic)

    def deliver(self, topic: str) -> None:
        """Tell the subscribers in this process."""
        for callback in self._subscribers:
            callback(topic)

    def close(self) -> None:
        """Stop passing signals on."""
