"""A file that is used on threads, and closed only when none of them uses it any more."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

#: As many as systems take.
PIECES_AT_ONCE = 1024


class HeldFile:
    """Opened by its first use. To let go of it waits for nobody: a thread that still uses it closes it at its end.

    So whoever is cancelled while a disk is silent need not wait, and a number that a thread still reads or writes by
    is never another file's.
    """

    def __init__(self, path: Path, flags: int) -> None:
        self.path = path
        self._flags = flags
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._users = 0
        #: Whether it was let go of.
        self.unwanted = False

    @contextmanager
    def used(self) -> Iterator[int]:
        """Use the file on this thread. The first use has ended before there is a second beside it."""
        self._enter()
        try:
            # Not under the lock, which is taken by those as well who must not wait for a disk.
            if self._descriptor is None:
                self._descriptor = os.open(self.path, self._flags, 0o600)
            yield self._descriptor
        finally:
            self._leave()

    def _enter(self) -> None:
        with self._lock:
            if self.unwanted:
                raise ValueError("The file is closed.")
            self._users += 1

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            last = self.unwanted and self._users == 0
        if last:
            self.close()

    def let_go(self) -> None:
        """Have no further use for it; the second time does nothing."""
        with self._lock:
            if self.unwanted:
                return
            self.unwanted = True
            idle = self._users == 0
        if idle:
            self.close()

    def close(self) -> None:
        """Called once, when nobody uses it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def write_all(descriptor: int, pieces: Sequence[bytes]) -> None:
    """Append the pieces; all of them, or an error."""
    left: Sequence[bytes | memoryview] = pieces
    while left:
        left = _after(left, os.writev(descriptor, left[:PIECES_AT_ONCE]))


def _after(pieces: Sequence[bytes | memoryview], written: int) -> Sequence[bytes | memoryview]:
    """Return what is left of the pieces."""
    for number, piece in enumerate(pieces):
        if written < len(piece):
            return [memoryview(piece)[written:], *pieces[number + 1 :]]
        written -= len(piece)
    return []
