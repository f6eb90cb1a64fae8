"""Files that several threads use, and the thread pools that use them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

Ts = TypeVarTuple("Ts")

#: The number of buffers that every operating system accepts in one `writev`.
PIECES_AT_ONCE = 1024


class SharedFile:
    """Opened by its first use, closed after its last. Releasing it never waits for the disk.

    A thread that still uses the file closes it when it is done. A cancelled caller therefore never waits for a stalled
    disk, and a descriptor in use is never reused for another file.
    """

    def __init__(self, path: Path, flags: int) -> None:
        self.path = path
        self._flags = flags
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._users = 0
        self.released = False

    @contextlib.contextmanager
    def use(self) -> Iterator[int]:
        """Use the file on this thread. The first use must end before another begins beside it."""
        self._enter()
        try:
            # Not under the lock: callers that must not wait for a disk take it too.
            if self._descriptor is None:
                self._descriptor = os.open(self.path, self._flags, 0o600)
            yield self._descriptor
        finally:
            self._leave()

    def _enter(self) -> None:
        with self._lock:
            if self.released:
                raise ValueError("The file is closed.")
            self._users += 1

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            last = self.released and self._users == 0
        if last:
            self.close()

    def release(self) -> None:
        """Close the file as soon as no thread uses it. Further calls do nothing."""
        with self._lock:
            if self.released:
                return
            self.released = True
            idle = self._users == 0
        if idle:
            self.close()

    def close(self) -> None:
        """Close the file. Called once, when no thread uses it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class ReadableFile(SharedFile):
    """A file that one thread at a time reads from."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, os.O_RDONLY)

    def read(self, length: int, offset: int) -> bytes:
        """Return at most ``length`` bytes from ``offset``; none at the end of the file."""
        with self.use() as descriptor:
            return os.pread(descriptor, length, offset)


def write_all(descriptor: int, pieces: Sequence[bytes]) -> None:
    """Append all pieces, or raise."""
    left: Sequence[bytes | memoryview] = pieces
    while left:
        left = _unwritten(left, os.writev(descriptor, left[:PIECES_AT_ONCE]))


def _unwritten(pieces: Sequence[bytes | memoryview], written: int) -> Sequence[bytes | memoryview]:
    for number, piece in enumerate(pieces):
        if written < len(piece):
            return [memoryview(piece)[written:], *pieces[number + 1 :]]
        written -= len(piece)
    return []


class Threads:
    """A thread pool of a store's own: a stalled disk blocks only these threads, never those that resolve names.

    A running call continues when its caller is cancelled. A call that has not started by then never starts.
    """

    def __init__(self, most: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix=name)

    def call(self, call: Callable[[*Ts], Any], *arguments: *Ts) -> asyncio.Future[Any]:
        """Call on a thread, in the caller's logging context."""
        return asyncio.get_running_loop().run_in_executor(self._pool, copy_context().run, call, *arguments)

    def leave_to(self, call: Callable[[*Ts], None], *arguments: *Ts) -> None:
        """Call on a thread when one is free, without waiting. Errors are dropped."""
        # Once the pool is closed the call is skipped: a sweep removes what it leaves behind.
        with contextlib.suppress(RuntimeError):
            self._pool.submit(call, *arguments)

    def close(self) -> None:
        """Accept no more calls. Running calls end in their own time."""
        self._pool.shutdown(wait=False)
