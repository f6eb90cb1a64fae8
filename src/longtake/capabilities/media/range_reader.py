"""Media files that a decoder reads part by part: from our storage, from the source, or from a spool file on disk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVarTuple

from longtake.adapters.decoder.errors import DecodersBusy
from longtake.adapters.storage.errors import StorageUnavailable
from longtake.adapters.storage.files import SharedFile, Threads, write_all
from longtake.capabilities.media.copier import GONE
from longtake.clock import new_id
from longtake.services.assets.errors import AssetGone, ResultNotCopied, SourceGone

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from longtake.adapters.net import HttpClient, StreamedResponse
    from longtake.adapters.storage import Storage

Ts = TypeVarTuple("Ts")

#: The most bytes of a file that are fetched for one picture.
MOST_BYTES = 64 * 1024 * 1024
#: The first request fetches as much as a decoder reads first.
FIRST_PART = 128 * 1024
PART_SECONDS = 20.0
#: The most time for all parts after the first, while a decoder waits. For a slower source our copy is used.
SLOWEST_SECONDS = 10.0
#: A store that sends nothing for so long counts as away.
OPENING_SECONDS = 10.0
#: How many files are spooled at once, each of up to `MOST_BYTES`.
MOST_SPOOLED = 4
#: How long to wait for a place before the job comes back later.
PLACE_SECONDS = 15.0
WRITE_BYTES = 1024 * 1024
OK, PARTIAL = 200, 206
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class RangedFile:
    """A file whose size and first bytes are known: a source for decoders.

    ``fetch`` returns any other part. Without it, the first bytes are the whole file.
    """

    def __init__(self, size: int, first: bytes, fetch: Callable[[int, int], Awaitable[bytes]] | None = None) -> None:
        self.size = size
        self.first = first
        self._fetch = fetch

    async def read(self, offset: int, length: int) -> bytes:
        if self._fetch is None or offset + length <= len(self.first):
            return self.first[offset : offset + length]
        return await self._fetch(offset, length)


async def open_stored(storage: Storage, key: str) -> RangedFile:
    """Open an object of our storage. Raises AssetGone when it is gone.

    Opening and reading raise StorageUnavailable when the store stalls, before the waiting decoder times out.
    """

    async def fetch(offset: int, length: int) -> bytes:
        try:
            async with asyncio.timeout(OPENING_SECONDS):
                return b"".join([chunk async for chunk in storage.read(key, offset, offset + length)])
        except TimeoutError:
            raise StorageUnavailable(f"The storage did not send a part within {OPENING_SECONDS:g} s.") from None

    try:
        async with asyncio.timeout(OPENING_SECONDS):
            facts = await storage.facts(key)
            if facts is None:
                raise AssetGone("Our copy of the file is gone.")
            return RangedFile(facts.size, await fetch(0, min(FIRST_PART, facts.size)), fetch)
    except TimeoutError:
        raise StorageUnavailable(f"The storage sent nothing for {OPENING_SECONDS:g} s.") from None


class RemoteParts:
    """Fetches parts of a file at an address that answers range requests, within limits of bytes and time."""

    def __init__(
        self, client: HttpClient, url: str, headers: Mapping[str, str], size: int, first: StreamedResponse
    ) -> None:
        self._client = client
        self._url = url
        self._headers = headers
        self._size = size
        self._etag = first.headers.get("ETag")
        self._left = MOST_BYTES
        self._seconds_left = SLOWEST_SECONDS

    async def fetch(self, offset: int, length: int) -> bytes:
        """Return a part. Raises ResultNotCopied when the file has changed since its first part."""
        self._left -= length
        if self._left < 0:
            raise ResultNotCopied(f"A picture would need more than {MOST_BYTES:,} bytes of the file.")
        if self._seconds_left <= 0:
            raise ResultNotCopied(f"The source has taken more than {SLOWEST_SECONDS:g} s for parts of the file.")
        begun = asyncio.get_running_loop().time()
        try:
            return await self._fetch(offset, length)
        finally:
            self._seconds_left -= asyncio.get_running_loop().time() - begun

    async def _fetch(self, offset: int, length: int) -> bytes:
        wanted = {**self._headers, "Range": f"bytes={offset}-{offset + length - 1}"}
        async with self._client.stream(
            "GET", self._url, headers=wanted, seconds=self._seconds_left, most_bytes=length
        ) as answer:
            if answer.status != PARTIAL or _range(answer) != (offset, offset + length - 1, self._size):
                raise ResultNotCopied(f"The source answers {answer.status} to a request for a part of the file.")
            if answer.headers.get("ETag") != self._etag:
                raise ResultNotCopied("The file changed at its source while it was being read.")
            part = b"".join([chunk async for chunk in answer.chunks()])
            if len(part) != length:
                raise ResultNotCopied(f"The source sent {len(part)} bytes where {length} were announced.")
            return part


@contextlib.asynccontextmanager
async def open_source(
    client: HttpClient, url: str, headers: Mapping[str, str], spools: Spools
) -> AsyncIterator[RangedFile]:
    """Open a file at its source: by range requests if the source answers them, else spooled to disk."""
    async with contextlib.AsyncExitStack() as stack:
        answer = await stack.enter_async_context(_first_part(client, url, headers))
        if answer.status == PARTIAL and (byte_range := _range(answer)) is not None:
            first = b"".join([chunk async for chunk in answer.chunks()])
            if byte_range[:2] != (0, len(first) - 1):
                raise ResultNotCopied("The source sent a different part of the file from the one requested.")
            size = byte_range[2]
            yield RangedFile(size, first, RemoteParts(client, url, headers, size, answer).fetch)
            return
        _require_whole(answer)
        if not spools.full:
            await stack.enter_async_context(spools.place())
        else:
            # Close the answer and ask again when a place is free: an unread connection would count as slow.
            await stack.aclose()
            await stack.enter_async_context(spools.place())
            answer = await stack.enter_async_context(_first_part(client, url, headers))
            _require_whole(answer)
        yield await stack.enter_async_context(spools.keep(answer))


@contextlib.asynccontextmanager
async def _first_part(client: HttpClient, url: str, headers: Mapping[str, str]) -> AsyncIterator[StreamedResponse]:
    wanted = {**headers, "Range": f"bytes=0-{FIRST_PART - 1}"}
    async with client.stream("GET", url, headers=wanted, seconds=PART_SECONDS, most_bytes=MOST_BYTES) as answer:
        if answer.status in GONE:
            raise SourceGone(f"The address of the file answers {answer.status}.")
        yield answer


def _require_whole(answer: StreamedResponse) -> None:
    if answer.status != OK:
        raise ResultNotCopied(f"The address of the file answers {answer.status}.")


def _range(answer: StreamedResponse) -> tuple[int, int, int] | None:
    """Return the first byte, last byte and file size in the answer's Content-Range."""
    match = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


class Spools:
    """Places for temporary files on disk, for sources that answer no range requests."""

    def __init__(
        self, most: int = MOST_SPOOLED, *, folder: Path | None = None, place_seconds: float = PLACE_SECONDS
    ) -> None:
        self._places = asyncio.Semaphore(most)
        self._threads = Threads(most, "spool")
        self._folder = folder
        self._place_seconds = place_seconds

    @property
    def full(self) -> bool:
        return self._places.locked()

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place. Raises DecodersBusy, which counts as no try, when none becomes free."""
        try:
            async with asyncio.timeout(self._place_seconds):
                await self._places.acquire()
        except TimeoutError:
            raise DecodersBusy(f"No place for a temporary file became free within {self._place_seconds:g} s.") from None
        try:
            yield
        finally:
            self._places.release()

    @contextlib.asynccontextmanager
    async def keep(self, answer: StreamedResponse) -> AsyncIterator[RangedFile]:
        """Write the whole answer to disk; needs a place. Raises StorageUnavailable when our disk fails."""
        spool = _SpoolFile((self._folder or Path(tempfile.gettempdir())) / f"longtake-{new_id()}")
        try:
            await self._call(spool.create)
            pieces: list[bytes] = []
            size = pending = 0
            async for chunk in answer.chunks():
                pieces.append(chunk)
                pending += len(chunk)
                if pending >= WRITE_BYTES:
                    size += await self._call(spool.append, pieces)
                    pieces, pending = [], 0
            size += await self._call(spool.append, pieces)
            first = await self._call(spool.read, 0, min(FIRST_PART, size))
            yield RangedFile(size, first, lambda offset, length: self._call(spool.read, offset, length))
        finally:
            # A thread that still uses the file closes it.
            self._threads.leave_to(spool.release)

    async def _call(self, call: Callable[[*Ts], Any], *arguments: *Ts) -> Any:
        try:
            return await self._threads.call(call, *arguments)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise StorageUnavailable(
                f"The temporary file cannot be written: {reason}.",
                hint="Make room in the folder for temporary files; the work resumes by itself.",
            ) from error


class _SpoolFile(SharedFile):
    """A file without a name: the system removes it when the process ends."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def create(self) -> None:
        with self.use():
            self.path.unlink()

    def append(self, pieces: list[bytes]) -> int:
        with self.use() as descriptor:
            write_all(descriptor, pieces)
        return sum(map(len, pieces))

    def read(self, offset: int, length: int) -> bytes:
        with self.use() as descriptor:
            return os.pread(descriptor, length, offset)
