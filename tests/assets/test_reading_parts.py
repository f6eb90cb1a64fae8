"""Files as decoders read them: what is our own trouble is never held against the file."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from longtake.assets import ranged
from longtake.assets.ranged import StoredFile
from longtake.errors import StorageUnavailable
from longtake.storage.local import LocalStorage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from longtake.storage import Storage

KEY = "results/one/token.mp4"


async def test_a_store_that_stalls_in_the_middle_is_our_own_trouble(
    folder_storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await folder_storage.put(KEY, bytes(1_000_000), "video/mp4")
    file = await StoredFile.open(folder_storage, KEY)
    monkeypatch.setattr(ranged, "OPENING_SECONDS", 0.2)

    async def silent(*_arguments: object) -> AsyncIterator[bytes]:
        await asyncio.sleep(3600)
        yield b""

    monkeypatch.setattr(LocalStorage, "read", silent)
    assert await file.read(0, 100) == bytes(100)
    async with asyncio.timeout(10):
        with pytest.raises(StorageUnavailable):
            await file.read(500_000, 100_000)
