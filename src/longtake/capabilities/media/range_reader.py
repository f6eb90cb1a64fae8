"""Media files as a decoder reads them, part by part: from our storage, or straight from the source."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Protocol

from longtake.capabilities.media.download import GONE
from longtake.errors import AssetGone, ResultNotCopied, SourceGone, StorageUnavailable

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient, StreamedResponse
    from longtake.adapters.storage import Storage
    from longtake.capabilities.media.spool import Spools

#: A thumbnail never needs more of a file than this; a source that sends more is up to something.
MOST_BYTES = 64 * 1024 * 1024
#: The first request brings as much as a decoder asks for first.
FIRST_PART = 128 * 1024
PART_SECONDS = 20.0
#: What comes after the first part is read while a decoder waits for it: of a source that is slower, our copy is read.
SLOWEST_SECONDS = 10.0
#: A store of ours that gives nothing for so long counts as away.
OPENING_SECONDS = 10.0
OK, PARTIAL = 200, 206
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class RangedFile(Protocol):
    """A file whose size and beginning are known; `decoders.Source` with a first look."""

    size: int
    first: bytes

    async def read(self, offset: int, length: int) -> bytes: ...


class StoredFile:
    """An object of ours."""

    def __init__(self, storage: Storage, key: str, size: int, first: bytes) -> None:
        self._storage = storage
        self._key = key
        self.size = size
        self.first = first

    @staticmethod
    async def open(storage: Storage, key: str) -> StoredFile:
        """Look at the object. Raises AssetGone when it is not there any more."""
        try:
            async with asyncio.timeout(OPENING_SECONDS):
                facts = await storage.facts(key)
                if facts is None:
                    raise AssetGone("Our copy of the file is gone.")
                file = StoredFile(storage, key, facts.size, b"")
                file.first = await file.read(0, min(FIRST_PART, facts.size))
                return file
        except TimeoutError:
            raise StorageUnavailable(f"The storage has given nothing for {OPENING_SECONDS:g} s.") from None

    async def read(self, offset: int, length: int) -> bytes:
        """Return a part. A store that stalls is told as such, before the decoder that waits for it is to blame."""
        if offset + length <= len(self.first):
            return self.first[offset : offset + length]
        try:
            async with asyncio.timeout(OPENING_SECONDS):
                return b"".join([chunk async for chunk in self._storage.read(self._key, offset, offset + length)])
        except TimeoutError:
            raise StorageUnavailable(f"The storage has not given a part within {OPENING_SECONDS:g} s.") from None


class RemoteFile:
    """A file at an address that gives parts of it."""

    def __init__(
        self, client: HttpClient, url: str, headers: Mapping[str, str], size: int, etag: str | None, first: bytes
    ) -> None:
        self._client = client
        self._url = url
        self._headers = headers
        self._etag = etag
        self._left = MOST_BYTES
        self._seconds_left = SLOWEST_SECONDS
        self.size = size
        self.first = first

    async def read(self, offset: int, length: int) -> bytes:
        """Return a part, of the very file whose beginning was seen."""
        if offset + length <= len(self.first):
            return self.first[offset : offset + length]
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
            if answer.status != PARTIAL or _range(answer) != (offset, offset + length - 1, self.size):
                raise ResultNotCopied(f"The source answers {answer.status} where a part of the file was asked for.")
            if answer.headers.get("ETag") != self._etag:
                raise ResultNotCopied("The file has changed at its source while it was read.")
            part = b"".join([chunk async for chunk in answer.chunks()])
            if len(part) != length:
                raise ResultNotCopied(f"The source sent {len(part)} bytes where {length} were announced.")
            return part


@contextlib.asynccontextmanager
async def opened_source(
    client: HttpClient, url: str, headers: Mapping[str, str], spools: Spools
) -> AsyncIterator[RangedFile]:
    """Open a file at its source: by parts where the source gives them, else as much of it as a picture may need."""
    async with contextlib.AsyncExitStack() as stack:
        answer = await stack.enter_async_context(_asked(client, url, headers))
        if answer.status == PARTIAL and (told := _range(answer)) is not None:
            first = b"".join([chunk async for chunk in answer.chunks()])
            if told[:2] != (0, len(first) - 1):
                raise ResultNotCopied("The source sent another part of the file than the one that was asked for.")
            yield RemoteFile(client, url, headers, told[2], answer.headers.get("ETag"), first)
            return
        _require_whole(answer)
        if not spools.full:
            await stack.enter_async_context(spools.place())
        else:
            # The source is asked again when it is this file's turn: one that nobody reads from would count as slow.
            await stack.aclose()
            await stack.enter_async_context(spools.place())
            answer = await stack.enter_async_context(_asked(client, url, headers))
            _require_whole(answer)
        yield await stack.enter_async_context(spools.keep(answer, FIRST_PART))


@contextlib.asynccontextmanager
async def _asked(client: HttpClient, url: str, headers: Mapping[str, str]) -> AsyncIterator[StreamedResponse]:
    wanted = {**headers, "Range": f"bytes=0-{FIRST_PART - 1}"}
    async with client.stream("GET", url, headers=wanted, seconds=PART_SECONDS, most_bytes=MOST_BYTES) as answer:
        if answer.status in GONE:
            raise SourceGone(f"The address of the file answers {answer.status}.")
        yield answer


def _require_whole(answer: StreamedResponse) -> None:
    if answer.status != OK:
        raise ResultNotCopied(f"The address of the file answers {answer.status}.")


def _range(answer: StreamedResponse) -> tuple[int, int, int] | None:
    """Return first byte, last byte and the whole file's size as the answer tells them."""
    match = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    return (int(match[1]), int(match[2]), int(match[3])) if match else None
