"""Files of a local store: shared by threads, written apart from the objects until they are whole, then renamed."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVarTuple

from longtake.clock import new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

Ts = TypeVarTuple("Ts")

#: The number of buffers that every operating system accepts in one `writev`.
PIECES_AT_ONCE = 1024
#: The folder of files that are being written. The dot keeps it apart from every key.
INCOMING = ".incoming"
#: How often a folder may vanish between being made and being used.
RENAMES = 20


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


class TempFile(SharedFile):
    """A file that is being written. ``write``, ``hash`` and ``flush`` may run beside each other, one of each."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        self._hash = hashlib.sha256()
        #: The number of bytes written.
        self.size = 0
        #: The number of bytes on the disk; before the first flush the file itself is not there.
        self._flushed = -1
        self._has_name = False

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of the bytes hashed so far."""
        return self._hash.hexdigest()

    @property
    def unflushed(self) -> int:
        """Return the number of bytes that no flush has brought to the disk."""
        return self.size - max(self._flushed, 0)

    def hash(self, pieces: Sequence[bytes]) -> None:
        """Add the pieces to the checksum. The caller also writes them."""
        for piece in pieces:
            self._hash.update(piece)

    def write(self, pieces: Sequence[bytes]) -> None:
        """Append all pieces, or raise."""
        with self.use() as descriptor:
            write_all(descriptor, pieces)
        self.size += sum(map(len, pieces))

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
            written = self.size
            os.fsync(descriptor)
            self._flushed = written

    def rename(self, target: Path) -> bool:
        """Bring all bytes to the disk, then give the file its name. Return whether its folder had to be made."""
        if self._flushed < self.size:
            self.flush()
        with self.use():
            # A released file has no caller that would learn of its name.
            if self.released:
                return False
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
        with contextlib.suppress(FileNotFoundError), file.use():
            return
        # Another process has removed the folder.
        self._prepare()
        with file.use():
            return

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
