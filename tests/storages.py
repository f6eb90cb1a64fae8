"""Real stores for tests: a folder, and a folder of the private S3 server's bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtake.adapters.storage import Storage, open_storage
from longtake.clock import new_id
from longtake.settings import Settings
from tests.s3_server import ACCESS_KEY_ID, SECRET_ACCESS_KEY, S3Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

KINDS = ("local", "s3")


def local_storage(folder: Path) -> Storage:
    """Open a store in a folder that is not there yet."""
    return open_storage(Settings(storage_url=f"file:{folder}/objects"))


def s3_storage(server: S3Server, folder: str | None = None, secret: str = SECRET_ACCESS_KEY) -> Storage:
    """Open a store in a folder of the bucket."""
    url = server.url(folder or new_id())
    return open_storage(Settings(storage_url=url, s3_access_key_id=ACCESS_KEY_ID, s3_secret_access_key=secret))


async def chunked(body: bytes, size: int = 100_000, error: BaseException | None = None) -> AsyncIterator[bytes]:
    """Yield bytes in chunks as a network does; then, perhaps, break."""
    for start in range(0, len(body), size):
        yield body[start : start + size]
    if error is not None:
        raise error


async def keys_in(storage: Storage, folder: str) -> list[str]:
    """Return the keys of a folder in order."""
    return sorted([one.key async for one in storage.list(folder)])
