"""A file on its way in: beside the others until it is whole and on the disk, then under its name at once."""

import os
from pathlib import Path

#: How often a folder may vanish between being made and being used.
RENAMES = 20


#: Not every system has it; what else fsync brings to the disk is only the file's times.
_flush_data = getattr(os, "fdatasync", os.fsync)


class Incoming:
    """Used by one thread at a time, but for ``flush``, which may run beside ``write``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)

    def write(self, part: bytes) -> None:
        """Append; all of it, or an error."""
        left = memoryview(part)
        while left:
            left = left[os.write(self._open(), left) :]

    def flush(self) -> None:
        """Bring what was written so far to the disk."""
        _flush_data(self._open())

    def become(self, target: Path) -> None:
        """Give the file its name, once its bytes are on the disk; then bring the name there as well."""
        os.fsync(self._open())
        for _ in range(RENAMES - 1):
            try:
                self._rename(target)
                break
            except (FileNotFoundError, FileExistsError):
                # The folder was empty, and somebody who deleted from it has just taken it away.
                continue
        else:
            self._rename(target)
        for folder in (target.parent, target.parent.parent):
            _sync(folder)

    def _rename(self, target: Path) -> None:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path.replace(target)

    def discard(self) -> None:
        """Let go of the file; remove what did not get its name."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self._path.unlink(missing_ok=True)

    def _open(self) -> int:
        if self._descriptor is None:
            raise ValueError("The file is closed.")
        return self._descriptor


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
