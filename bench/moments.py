"""When each job's handler was entered, shared between the processes that run jobs and the one that measures them.

A file of one double per job, mapped into memory: marking costs about as much as the call itself, needs no connection,
works over forks, and shows which jobs ran rather than only how many. The clock is the machine's monotonic one, which is
the same in all processes.
"""

import mmap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WIDTH = 8


class Moments:
    """Slot n is zero until job n was entered for the first time, then the monotonic time of its latest entry."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._slots = memoryview(self._memory).cast("d")

    @classmethod
    def create(cls, path: Path, count: int) -> "Moments":
        path.write_bytes(bytes(count * WIDTH))
        return cls(path)

    def mark(self, number: int) -> None:
        self._slots[number] = time.monotonic()

    def at(self, number: int) -> float:
        return float(self._slots[number])

    def entered(self) -> int:
        return sum(1 for moment in self._slots if moment)

    def is_complete(self) -> bool:
        # Queues are mostly first in, first out: as long as the last job has not run, there is nothing to count.
        return bool(self._slots[-1]) and all(self._slots)

    def first(self) -> float:
        return min((moment for moment in self._slots if moment), default=0.0)

    def last(self) -> float:
        return max(self._slots)

    def close(self) -> None:
        self._slots.release()
        self._memory.close()


@contextmanager
def recording(path: Path, count: int) -> Iterator[Moments]:
    moments = Moments.create(path, count)
    try:
        yield moments
    finally:
        moments.close()
        path.unlink()
