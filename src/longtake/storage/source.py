"""The bytes of an upload on their way: counted, hashed, capped, and stoppable in the middle."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from longtake.errors import ObjectTooLarge

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class UploadStopped(Exception):
    """The upload is no longer wanted. Makes a store give up; never seen outside."""


class Source:
    """Hands out parts of one size (the last may be smaller), and knows their number and SHA-256 at the end.

    The chunks are read by one task from first to last: a generator with a time limit inside must not move between
    tasks. One part waits while the one before it is being written.
    """

    def __init__(self, chunks: AsyncIterator[bytes], *, most_bytes: int, part_bytes: int) -> None:
        self._chunks = chunks
        self._most = most_bytes
        self._part_bytes = part_bytes
        self._hash = hashlib.sha256()
        self._ready: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
        self._error: BaseException | None = None
        self._hashed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hashed.set_result(None)
        self._reading = asyncio.create_task(self._read())
        self.size = 0

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of what was read so far."""
        return self._hash.hexdigest()

    @property
    def error(self) -> BaseException | None:
        """Return what ended the source before its end, as it was raised: a store may wrap it beyond recognition."""
        return self._error

    def stop(self) -> None:
        """Make whoever reads the parts give up, also while the next chunk is being waited for."""
        self._reading.cancel()

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the parts; raise what the source raised."""
        while (part := await self._ready.get()) is not None:
            yield part
        if self._error is not None:
            raise self._error

    async def _read(self) -> None:
        try:
            await self._read_parts()
        except asyncio.CancelledError:
            self._error = UploadStopped()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised where the parts are read
            self._error = error
        finally:
            if isinstance(self._chunks, AsyncGenerator):
                await self._chunks.aclose()
        if self._error is not None and not self._ready.empty():
            self._ready.get_nowait()
        await self._ready.put(None)

    async def _read_parts(self) -> None:
        pieces: list[bytes] = []
        held = 0
        async for chunk in self._chunks:
            self.size += len(chunk)
            if self.size > self._most:
                raise ObjectTooLarge(f"It has more than {self._most:,} bytes.", limit=self._most)
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
        # In a thread, while the next part comes: it takes longer than the network on a fast one.
        self._hashed = asyncio.get_running_loop().run_in_executor(None, self._hash.update, part)
        await self._ready.put(part)

    async def close(self) -> None:
        """Stop reading, whatever is left."""
        self._reading.cancel()
        await asyncio.wait({self._reading})


@asynccontextmanager
async def opened_source(chunks: AsyncIterator[bytes], *, most_bytes: int, part_bytes: int) -> AsyncIterator[Source]:
    """Read the chunks for as long as the block lasts."""
    source = Source(chunks, most_bytes=most_bytes, part_bytes=part_bytes)
    try:
        yield source
    finally:
        await source.close()
