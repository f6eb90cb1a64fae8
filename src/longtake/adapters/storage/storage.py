"""The interface of every store. An object is stored whole or not at all, and never changes afterwards.

Longtake makes the keys (:mod:`longtake.adapters.storage.keys`). Addresses are signed when a reader asks, live for
minutes, and are never kept in a row.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longtake.adapters.storage.errors import ObjectTooLarge, StorageRefused
from longtake.clock import new_id
from longtake.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
    from datetime import datetime

    from longtake.settings.service import ServiceSettings

#: The size of every part of a large upload except the last; memory for one object is a few parts.
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
    """An object that was just written: its size, and the SHA-256 of its bytes in hexadecimal."""

    key: str
    size: int
    checksum: str


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """What a store knows about an object. Listings have no content type."""

    key: str
    size: int
    etag: str | None
    modified_at: datetime
    content_type: str | None = None


class Storage(ABC):
    """A folder or a bucket; open one with :func:`longtake.adapters.storage.open_storage`."""

    #: Whether it signs addresses from which others fetch objects directly.
    signs: bool = True

    @abstractmethod
    async def put(self, key: str, body: bytes, content_type: str, *, file_name: str | None = None) -> Stored:
        """Write an object; the same key again replaces it. ``file_name`` is what browsers save it as."""

    async def put_all(self, objects: Sequence[NewObject]) -> Sequence[Stored]:
        """Write objects that belong together. When one fails, others may be stored, whole."""
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

        If the source fails, sends too many bytes or is cancelled, nothing is stored and its error is raised unchanged.
        """

    async def get(self, key: str, most_bytes: int) -> bytes:
        """Return a whole object. Raises ObjectMissing, or ObjectTooLarge above ``most_bytes``."""
        body = bytearray()
        async for chunk in self.read(key):
            body += chunk
            if len(body) > most_bytes:
                raise ObjectTooLarge(f"The object has more than {most_bytes:,} bytes.", limit=most_bytes)
        return bytes(body)

    @abstractmethod
    def read(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Yield an object's bytes from ``start`` up to but not including ``end``. Raises ObjectMissing on first use."""

    @abstractmethod
    async def facts(self, key: str) -> ObjectFacts | None:
        """Return what the store knows about an object, or None when it does not exist."""

    async def existing(self, keys: Sequence[str]) -> list[str]:
        """Return the keys that have an object, in their order."""
        found = await asyncio.gather(*(self.facts(key) for key in keys))
        return [key for key, facts in zip(keys, found, strict=True) if facts is not None]

    @abstractmethod
    async def delete(self, keys: Iterable[str]) -> None:
        """Remove objects. Missing objects are no error."""

    @abstractmethod
    def list(self, prefix: str, after: str | None = None) -> AsyncGenerator[ObjectFacts, None]:
        """Yield the objects in a folder (``references``, ``results/…``) and all below it, in the order of their keys.

        With ``after``, only keys that sort after it.
        """

    @abstractmethod
    async def remove_unfinished(self, before: datetime) -> int:
        """Remove unfinished uploads that began before the moment; return how many."""

    @abstractmethod
    async def signed_url(self, key: str, seconds: float) -> str | None:
        """Return an address of this object that works for so many seconds; None if our own server must serve it."""

    async def check(self) -> None:
        """Write, read and remove a small object. Raises an error that tells an operator what to fix."""
        key = f"probes/{new_id()}.txt"
        await self.put(key, PROBE_BODY, "text/plain")
        try:
            if await self.get(key, len(PROBE_BODY)) != PROBE_BODY:
                raise StorageRefused("The storage returned different bytes from those written.")
        finally:
            await self.delete([key])

    async def close(self) -> None:  # noqa: B027 - most stores have nothing to close
        """Close connections and threads. Objects stay."""


def retrieve_error(future: asyncio.Future[Any]) -> None:
    """Mark the error of a future as seen. Its caller has another error to report."""
    if not future.cancelled():
        future.exception()


def open_storage(settings: ServiceSettings) -> Storage:
    """Return the store that the settings name, without contacting it (see ``Storage.check``).

    Without S3 keys in the settings, AWS's own variables or the machine's role are used.
    """
    # Imported here: the stores import this module, and only the client that is used should load.
    url = settings.storage_url
    if url.lower().startswith("file:"):
        from longtake.adapters.storage.local import LocalStorage  # noqa: PLC0415

        path = url[len("file:") :]
        # `file:///absolute/folder` has an empty host before its path.
        return LocalStorage(Path(path.removeprefix("//") if path.startswith("///") else path))
    from longtake.adapters.storage.s3 import S3Storage, parse_s3_url  # noqa: PLC0415

    key_id, secret = settings.s3_access_key_id, settings.s3_secret_access_key.get_secret_value()
    if bool(key_id) != bool(secret):
        raise SettingsError(
            "LONGTAKE_S3_ACCESS_KEY_ID and LONGTAKE_S3_SECRET_ACCESS_KEY belong together: set both, or neither."
        )
    return S3Storage(parse_s3_url(url), access_key_id=key_id, secret_access_key=secret)
