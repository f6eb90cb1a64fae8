"""Files from sources that give no parts: a few at a time, kept on disk while a decoder needs them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVarTuple

from longtake.adapters.storage.shared_file import SharedFile, Threads, write_all
from longtake.clock import new_id
from longtake.errors import DecodersBusy, StorageUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from longtake.adapters.net import StreamedAnswer

Ts = TypeVarTuple("Ts")

#: Each of them may be as large as a picture may need; they wait for decoders, of which there are not many more.
MOST_SPOOLED = 4
#: Then whoever waits comes back later, as with decoders.
PLACE_SECONDS = 15.0
WRITE_BYTES = 1024 * 1024


class Spools:
    """Places for so many files at once, on the disk for temporary files; used from threads of their own."""

    def __init__(
        self, most: int = MOST_SPOOLED, *, folder: Path | None = None, place_seconds: float = PLACE_SECONDS
    ) -> None:
        self._places = asyncio.Semaphore(most)
        self._threads = Threads(most, "spool")
        self._folder = folder
        self._place_seconds = place_seconds

    @property
    def full(self) -> bool:
        """Whether the next one has to wait."""
        return self._places.locked()

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place. Raises DecodersBusy where none becomes free: nothing was tried."""
        try:
            async with asyncio.timeout(self._place_seconds):
                await self._places.acquire()
        except TimeoutError:
            raise DecodersBusy(f"There was no place for the file for {self._place_seconds:g} s.") from None
        try:
            yield
        finally:
            self._places.release()

    @contextlib.asynccontextmanager
    async def keep(self, answer: StreamedAnswer, first_bytes: int) -> AsyncIterator[SpooledFile]:
        """Read all of the answer; needs a place. Raises StorageUnavailable where our disk is in trouble."""
        spool = _Spool((self._folder or Path(tempfile.gettempdir())) / f"longtake-{new_id()}")
        try:
            await self._call(spool.begin)
            pieces: list[bytes] = []
            size = held = 0
            async for chunk in answer.chunks():
                pieces.append(chunk)
                held += len(chunk)
                if held >= WRITE_BYTES:
                    size += await self._call(spool.append, pieces)
                    pieces, held = [], 0
            size += await self._call(spool.append, pieces)
            file = SpooledFile(lambda offset, length: self._call(spool.read, offset, length), size)
            file.first = await file.read(0, min(first_bytes, size))
            yield file
        finally:
            # A thread that still uses it closes it.
            self._threads.leave_to(spool.release)

    async def _call(self, call: Callable[[*Ts], Any], *arguments: *Ts) -> Any:
        try:
            return await self._threads.call(call, *arguments)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise StorageUnavailable(
                f"The file cannot be kept on disk for the moment: {reason}.",
                hint="Make room in the folder for temporary files; work goes on by itself.",
            ) from error


class SpooledFile:
    """A file from a source that gives no parts."""

    def __init__(self, read: Callable[[int, int], Any], size: int) -> None:
        self._read = read
        self.size = size
        self.first = b""

    async def read(self, offset: int, length: int) -> bytes:
        """Return a part."""
        part: bytes = await self._read(offset, length)
        return part


class _Spool(SharedFile):
    """Has no name: it goes with the process, however that ends."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def begin(self) -> None:
        with self.use():
            self.path.unlink()

    def append(self, pieces: list[bytes]) -> int:
        with self.use() as descriptor:
            write_all(descriptor, pieces)
        return sum(map(len, pieces))

    def read(self, offset: int, length: int) -> bytes:
        with self.use() as descriptor:
            return os.pread(descriptor, length, offset)
