"""Files as decoders read them: what is our own trouble is never held against the file."""

from __future__ import annotations

import asyncio
import errno
import os
import random
from typing import TYPE_CHECKING

import pytest

from longtake.adapters.decoder.errors import DecodersBusy
from longtake.adapters.net import HttpClient
from longtake.adapters.storage.errors import StorageUnavailable
from longtake.adapters.storage.local import LocalStorage
from longtake.capabilities.media import range_reader
from longtake.capabilities.media.range_reader import FIRST_PART, Spools, open_source, open_stored
from tests.assets.stage import Source
from tests.wait import PATIENCE_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from longtake.adapters.storage import Storage

KEY = "results/one/token.mp4"
BODY = random.Random(8).randbytes(3_000_000)


async def test_a_store_that_stalls_in_the_middle_is_our_own_trouble(
    folder_storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await folder_storage.put(KEY, bytes(1_000_000), "video/mp4")
    file = await open_stored(folder_storage, KEY)
    monkeypatch.setattr(range_reader, "OPENING_SECONDS", 0.2)

    async def silent(*_arguments: object) -> AsyncIterator[bytes]:
        await asyncio.sleep(3600)
        yield b""

    monkeypatch.setattr(LocalStorage, "read", silent)
    assert await file.read(0, 100) == bytes(100)
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(StorageUnavailable):
            await file.read(500_000, 100_000)


@pytest.fixture
async def source() -> AsyncIterator[Source]:
    async with Source().running() as running:
        running.files["/clip.mp4"] = BODY
        yield running


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    opened = HttpClient(allowed_addresses=["loopback"])
    yield opened
    await opened.close()


async def test_a_source_without_parts_is_kept_on_disk_while_it_is_needed(
    source: Source, client: HttpClient, tmp_path: Path
) -> None:
    spools = Spools(1, folder=tmp_path)
    async with open_source(client, f"{source.url}/clip.mp4", {}, spools) as file:
        assert (file.size, file.first) == (len(BODY), BODY[:FIRST_PART])
        assert await file.read(1_000_000, 200_000) == BODY[1_000_000:1_200_000]
        assert await file.read(len(BODY) - 10, 10) == BODY[-10:]
        assert not _names_in(tmp_path)


async def test_only_some_are_kept_at_once_and_the_others_come_back_later(
    source: Source, client: HttpClient, tmp_path: Path
) -> None:
    url, spools = f"{source.url}/clip.mp4", Spools(1, folder=tmp_path, place_seconds=0.1)
    async with open_source(client, url, {}, spools):
        with pytest.raises(DecodersBusy):
            async with open_source(client, url, {}, spools):
                pass
    async with open_source(client, url, {}, spools) as file:
        assert file.size == len(BODY)


async def test_whoever_waits_for_a_place_asks_the_source_again(
    source: Source, client: HttpClient, tmp_path: Path
) -> None:
    """An answer that nobody reads for a while would be taken for a slow one."""
    url, spools = f"{source.url}/clip.mp4", Spools(1, folder=tmp_path)
    async with open_source(client, url, {}, spools):
        second = asyncio.create_task(_size_of(client, url, spools))
        await until(lambda: len(source.requests) == 2)
    assert await second == len(BODY)
    assert len(source.requests) == 3


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
async def test_a_disk_without_room_is_our_own_trouble(
    source: Source, client: HttpClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(_descriptor: int, _pieces: object) -> int:
        raise OSError(number, os.strerror(number))

    spools = Spools(1, folder=tmp_path)
    monkeypatch.setattr(os, "writev", refuse)
    with pytest.raises(StorageUnavailable) as caught:
        await _size_of(client, f"{source.url}/clip.mp4", spools)
    assert os.strerror(number) in caught.value.message
    monkeypatch.undo()
    assert await _size_of(client, f"{source.url}/clip.mp4", spools) == len(BODY)


async def test_a_folder_that_is_not_there_is_our_own_trouble(
    source: Source, client: HttpClient, tmp_path: Path
) -> None:
    with pytest.raises(StorageUnavailable):
        await _size_of(client, f"{source.url}/clip.mp4", Spools(1, folder=tmp_path / "nowhere"))


def _names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def _size_of(client: HttpClient, url: str, spools: Spools) -> int:
    async with open_source(client, url, {}, spools) as file:
        return file.size
