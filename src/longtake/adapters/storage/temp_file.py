"""A file on its way in: beside the others until it is whole and on the disk, then under its name at once."""

import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from longtake.adapters.storage.shared_file import HeldFile, write_all

#: How often a folder may vanish between being made and being used.
RENAMES = 20


class Incoming(HeldFile):
    """Used by one thread at a time, but for ``flush``, which may run beside ``write``."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        self._hash = hashlib.sha256()
        self._written = 0
        #: How many bytes are on the disk; the file itself is not there before the first flush.
        self._flushed = -1
        self._has_name = False

    def begin(self) -> None:
        """Make the file."""
        with self.used():
            pass

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of what was written so far."""
        return self._hash.hexdigest()

    def write(self, pieces: Sequence[bytes]) -> int:
        """Append; all of it, or an error. Return how many bytes that were."""
        with self.used() as descriptor:
            for piece in pieces:
                self._hash.update(piece)
            write_all(descriptor, pieces)
        size = sum(map(len, pieces))
        self._written += size
        return size

    def flush_soon(self) -> None:
        """Have the system begin to bring what was written to the disk, and wait for nothing.

        Files have no place on the disk before that. Of many that are begun like this before the first is waited for,
        all places are noted with one wait; else each has a wait of its own.
        """
        if hasattr(os, "posix_fadvise"):
            with self.used() as descriptor:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def flush(self) -> None:
        """Bring what was written so far to the disk."""
        with self.used() as descriptor:
            written = self._written
            os.fsync(descriptor)
            self._flushed = written

    def become(self, target: Path) -> bool:
        """Give the file its name, once its bytes are on the disk; say whether its folder had to be made."""
        if self._flushed < self._written:
            self.flush()
        with self.used():
            # Of one that was let go of meanwhile nobody would hear.
            return not self.unwanted and self._rename(target)

    def _rename(self, target: Path) -> bool:
        for turn in range(RENAMES):
            try:
                if turn:
                    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self.path.replace(target)
            except (FileNotFoundError, FileExistsError):
                # There is no such folder; or it was empty, and somebody who deleted from it has just taken it away.
                if turn == RENAMES - 1:
                    raise
            else:
                self._has_name = True
                return turn > 0
        raise AssertionError

    def close(self) -> None:
        """Remove what did not get its name."""
        # What cannot be removed now is found by a sweep; whatever went wrong before is what is to be told.
        with contextlib.suppress(OSError):
            super().close()
        if not self._has_name:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
