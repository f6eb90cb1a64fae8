"""The source of an upload: its bytes in parts, counted, limited in size, and stoppable in the middle."""

from __future__ import annotations

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from longtake.adapters.storage.errors import ObjectTooLarge

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Part = TypeVar("Part")


class UploadStopped(Exception):
    """The upload is no longer wanted. Makes a store abort it; callers never see it."""


class UploadSource(ABC, Generic[Part]):
    """Hands out parts and counts their bytes. Reads inside its ``async with`` block only.

    The chunks are read by one task from first to last: a generator with a time limit inside must not move between
    tasks. One part waits while the one before it is being written.
    """

    def __init__(self, chunks: AsyncIterator[bytes], *, most_bytes: int, part_bytes: int) -> None:
        self._chunks = chunks
        self._most = most_bytes
        self._part_bytes = part_bytes
        self._ready: asyncio.Queue[Part | None] = asyncio.Queue(maxsize=1)
        self._error: BaseException | None = None
        self._reading = asyncio.create_task(self._read())
        self.size = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Stop reading."""
        self._reading.cancel()
        await asyncio.wait({self._reading})

    @property
    def error(self) -> BaseException | None:
        """Return the error that ended the source, as it was raised: a store may wrap it beyond recognition."""
        return self._error

    def stop(self) -> None:
        """Raise UploadStopped to the reader of the parts, even while the next chunk is awaited."""
        self._reading.cancel()

    async def parts(self) -> AsyncIterator[Part]:
        """Yield the parts; raise the source's error at its place."""
        while (part := await self._ready.get()) is not None:
            yield part
        if self._error is not None:
            raise self._error

    async def _read(self) -> None:
        try:
            await self._read_parts()
        except asyncio.CancelledError:
            self._error = UploadStopped()
        except Exception as error:  # noqa: BLE001 - raised again to the reader of the parts
            self._error = error
        finally:
            if isinstance(self._chunks, AsyncGenerator):
                await self._chunks.aclose()
        if self._error is not None and not self._ready.empty():
            self._ready.get_nowait()
        await self._ready.put(None)

    @abstractmethod
    async def _read_parts(self) -> None:
        """Read all chunks and put the parts into ``_ready``."""

    def _count(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if self.size > self._most:
            raise ObjectTooLarge(f"The file has more than {self._most:,} bytes.", limit=self._most)


class Batches(UploadSource[list[bytes]]):
    """Hands out lists of unchanged chunks; every list but the last has at least ``part_bytes``."""

    async def _read_parts(self) -> None:
        batch: list[bytes] = []
        held = 0
        async for chunk in self._chunks:
            self._count(chunk)
            batch.append(chunk)
            held += len(chunk)
            if held >= self._part_bytes:
                await self._ready.put(batch)
                batch, held = [], 0
        if batch:
            await self._ready.put(batch)


class EqualParts(UploadSource[bytes]):
    """Hands out parts of one size (the last may be smaller) and computes their SHA-256."""

    def __init__(self, chunks: AsyncIterator[bytes], *, most_bytes: int, part_bytes: int) -> None:
        super().__init__(chunks, most_bytes=most_bytes, part_bytes=part_bytes)
        self._hash = hashlib.sha256()
        self._hashed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hashed.set_result(None)

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of the parts handed out so far."""
        return self._hash.hexdigest()

    async def _read_parts(self) -> None:
        pieces: list[bytes] = []
        held = 0
        async for chunk in self._chunks:
            self._count(chunk)
            left = chunk
            while held + len(left) >= self._part_bytes:
                room = self._part_bytes - held
                await self._hand_out(b"".join([*pieces, left[:room]]))
                pieces, held, left = [], 0, left[room:]
            if left:
                pieces.append(left)
                held += len(left)
        if pieces:
            await self._hand_out(b"".join(pieces))
        await self._hashed

    async def _hand_out(self, part: bytes) -> None:
        await self._hashed
        # On a thread, while the next part arrives: hashing takes longer than a fast network.
        self._hashed = asyncio.get_running_loop().run_in_executor(None, self._hash.update, part)
        await self._ready.put(part)
