"""Files that are being written: apart from the objects until they are whole and on the disk, then renamed."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longtake.adapters.storage.shared_file import SharedFile, write_all
from longtake.clock import new_id

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence
    from datetime import datetime

#: The name of the folder. The dot keeps it apart from every key.
INCOMING = ".incoming"
#: How often a folder may vanish between being made and being used.
RENAMES = 20
#: The number of bytes between two flushes.
FLUSH_BYTES = 32 * 1024 * 1024


class TempFile(SharedFile):
    """Used by one thread at a time, except for ``flush``, which may run beside ``write``."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        self._hash = hashlib.sha256()
        self._written = 0
        #: The number of bytes on the disk; before the first flush the file itself is not there.
        self._flushed = -1
        self._has_name = False

    def create(self) -> None:
        """Create the file."""
        with self.use():
            pass

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of the bytes written so far."""
        return self._hash.hexdigest()

    def write(self, pieces: Sequence[bytes]) -> int:
        """Append all pieces, or raise. Return the number of bytes."""
        with self.use() as descriptor:
            for piece in pieces:
                self._hash.update(piece)
            write_all(descriptor, pieces)
        size = sum(map(len, pieces))
        self._written += size
        return size

    def flush_soon(self) -> None:
        """Ask the system to start writing to the disk, without waiting for it.

        The system allocates a file's place on the disk only then. When many files start like this before the first
        flush, one wait records all their places; otherwise each file waits for itself.
        """
        if hasattr(os, "posix_fadvise"):
            with self.use() as descriptor:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def flush(self) -> None:
        """Bring the bytes written so far to the disk."""
        with self.use() as descriptor:
            written = self._written
            os.fsync(descriptor)
            self._flushed = written

    def rename(self, target: Path) -> bool:
        """Bring all bytes to the disk, then give the file its name. Return whether its folder had to be made."""
        if self._flushed < self._written:
            self.flush()
        with self.use():
            # A released file has no caller that would learn of its name.
            return not self.released and self._rename(target)

    def _rename(self, target: Path) -> bool:
        for turn in range(RENAMES):
            try:
                if turn:
                    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self.path.replace(target)
            except (FileNotFoundError, FileExistsError):
                # The folder does not exist, or was empty and a concurrent delete has just removed it.
                if turn == RENAMES - 1:
                    raise
            else:
                self._has_name = True
                return turn > 0
        raise AssertionError

    def close(self) -> None:
        """Close the file; remove it unless it has its name."""
        # A sweep finds what cannot be removed now, and the error before it is the one to report.
        with contextlib.suppress(OSError):
            super().close()
        if not self._has_name:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)


class TempFolder:
    """The folder of temporary files inside the folder of objects; only the owner of the process may read it.

    Its methods run on threads.
    """

    def __init__(self, objects: Path) -> None:
        self._objects = objects
        self._prepared = False
        #: Folders that no deletion removes, and whose own names are on the disk.
        self._lasting: set[Path] = set()

    def new(self) -> TempFile:
        """Return a file that does not exist yet."""
        return TempFile(self._objects / INCOMING / new_id())

    def create(self, file: TempFile) -> None:
        """Create the file, and the folder if it is missing."""
        if not self._prepared:
            self._prepare()
        try:
            file.create()
        except FileNotFoundError:
            # Another process has removed the folder.
            self._prepare()
            file.create()

    def rename(self, file: TempFile, target: Path) -> None:
        """Bring a whole file to the disk and give it its name."""
        if file.rename(target):
            self._lasting.discard(target.parent)

    def flush_names(self, folder: Path) -> None:
        """Bring the names in a folder to the disk, and the folder's own name unless that was done before."""
        sync_folder(folder)
        if folder not in self._lasting:
            sync_folder(folder.parent)
            # A deletion removes empty folders, except those right below ours.
            if folder.parent == self._objects:
                self._lasting.add(folder)

    def remove_unfinished(self, before: datetime) -> int:
        """Remove files that were last written before the moment; return how many."""
        removed = 0
        with contextlib.suppress(FileNotFoundError), os.scandir(self._objects / INCOMING) as found:
            for one in found:
                # A live writer changes the time, and may rename the file at any moment.
                with contextlib.suppress(FileNotFoundError):
                    if one.stat().st_mtime < before.timestamp():
                        Path(one.path).unlink()
                        removed += 1
        return removed

    def _prepare(self) -> None:
        (self._objects / INCOMING).mkdir(mode=0o700, parents=True, exist_ok=True)
        # The folder may exist with wider rights; users' media are private.
        with contextlib.suppress(PermissionError):
            self._objects.chmod(0o700)
        self._prepared = True


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class BackgroundFlush:
    """Flushes a file while it grows, one flush at a time, so that little is left to wait for at its end.

    ``start`` starts a flush on a thread. No outcome is dropped while the file is wanted: the system reports a lost
    write to one flush only, and later ones succeed.
    """

    def __init__(self, start: Callable[[], asyncio.Future[Any]]) -> None:
        self._start = start
        self._unflushed = 0
        self._running: asyncio.Future[Any] | None = None

    def count(self, number: int) -> None:
        """Count written bytes; start a flush when one is due. Raises the error of an earlier flush."""
        self._unflushed += number
        if self._unflushed < FLUSH_BYTES:
            return
        if self._running is not None:
            if not self._running.done():
                return
            self._running.result()
        self._unflushed = 0
        self._running = self._start()
        # A file that is given up for another reason never asks for the outcome.
        self._running.add_done_callback(_retrieve_error)

    async def finish(self) -> None:
        """Wait for the running flush, and raise its error."""
        if self._running is not None:
            await self._running


def _retrieve_error(flush: asyncio.Future[Any]) -> None:
    if not flush.cancelled():
        flush.exception()
