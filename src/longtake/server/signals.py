"""Signals: the first asks to stop in order, the second is left to the system, which ends the process at once."""

import asyncio
import signal
from types import FrameType
from typing import Any, Self

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignal:
    """Hears SIGTERM and SIGINT while it is entered, on the main thread."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            if signal.getsignal(number) == self._hear:
                signal.signal(number, handler)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        # From here on the system's own way: a process that hangs while stopping can still be ended.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        self._loop.call_soon_threadsafe(self.event.set)
