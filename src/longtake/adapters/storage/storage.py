"""What every store offers. An object is there whole or not at all, and never changes once it is there.

Keys are made by us (:mod:`longtake.adapters.storage.keys`); addresses are made when a reader asks, live for minutes,
and are never kept in a row.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longtake.clock import new_id
from longtake.errors import ObjectTooLarge, StorageRefused

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
    from datetime import datetime

#: How much is in memory at once for one object; also the size of all parts but the last of a large upload.
PART_BYTES = 5 * 1024 * 1024
PROBE_BODY = b"Longtake looks whether it can write here."


@dataclass(frozen=True, slots=True)
class NewObject:
    """An object to be written. ``file_name`` is what browsers save it as."""

    key: str
    body: bytes
    content_type: str
    file_name: str | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """An object that was just written: all its bytes, and their SHA-256 in hexadecimal."""

    key: str
    size: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What a store knows of an object; listings know no content type."""

    key: str
    size: int
    etag: str | None
    modified_at: datetime
    content_type: str | None = None


class Storage(ABC):
    """A folder or a bucket; open one with :func:`longtake.adapters.storage.open_storage`."""

    #: Whether it makes addresses under which others fetch objects from it directly.
    signs: bool = True

    @abstractmethod
    async def put(self, key: str, body: bytes, content_type: str, *, file_name: str | None = None) -> Stored:
        """Write an object; the same key again replaces it. ``file_name`` is what browsers save it as."""

    async def put_all(self, objects: Sequence[NewObject]) -> Sequence[Stored]:
        """Write objects that belong together; one that fails may leave others, which are whole."""
        puts = (self.put(one.key, one.body, one.content_type, file_name=one.file_name) for one in objects)
        return await asyncio.gather(*puts)

    @abstractmethod
    async def put_stream(
        self,
        key: str,
        chunks: AsyncIterator[bytes],
        content_type: str,
        *,
        most_bytes: int,
        file_name: str | None = None,
    ) -> Stored:
        """Write an object as its bytes arrive; memory stays flat.

        Whatever ends the source but its own end (an error, too many bytes, being cancelled) leaves nothing behind,
        and is raised as it was.
        """

    async def get(self, key: str, most_bytes: int) -> bytes:
        """Return a whole object, if it is not larger than that. Raises ObjectMissing when there is none."""
        body = bytearray()
        async for chunk in self.read(key):
            body += chunk
            if len(body) > most_bytes:
                raise ObjectTooLarge(f"The object has more than {most_bytes:,} bytes.", limit=most_bytes)
        return bytes(body)

    @abstractmethod
    def read(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Yield an object's bytes from ``start`` up to, not including, ``end``. Raises ObjectMissing at the first."""

    @abstractmethod
    async def facts(self, key: str) -> Facts | None:
        """Return what is known of an object, or None when there is none."""

    async def existing(self, keys: Sequence[str]) -> list[str]:
        """Return those of the keys under which there is an object, in their order."""
        found = await asyncio.gather(*(self.facts(key) for key in keys))
        return [key for key, facts in zip(keys, found, strict=True) if facts is not None]

    @abstractmethod
    async def delete(self, keys: Iterable[str]) -> None:
        """Remove objects; those that are gone already are as good as removed."""

    @abstractmethod
    def list(self, prefix: str, after: str | None = None) -> AsyncGenerator[Facts, None]:
        """Yield the objects in a folder (``references``, ``results/…``) and all below it, in the order of their keys.

        ``after`` is the key to go on after.
        """

    @abstractmethod
    async def remove_unfinished(self, before: datetime) -> int:
        """Remove what is left of uploads that were begun before the moment and never finished; return how many."""

    @abstractmethod
    async def signed_url(self, key: str, seconds: float) -> str | None:
        """Return an address of this one object that works for so long; None where our own server has to serve it."""

    async def check(self) -> None:
        """Write, read and remove a small object. Raises what is wrong, in words an operator can act on."""
        key = f"probes/{new_id()}.txt"
        await self.put(key, PROBE_BODY, "text/plain")
        try:
            if await self.get(key, len(PROBE_BODY)) != PROBE_BODY:
                raise StorageRefused("The storage returns other bytes than were written.")
        finally:
            await self.delete([key])

    async def close(self) -> None:  # noqa: B027 - most stores have nothing to let go of
        """Let go of connections. Objects stay."""
