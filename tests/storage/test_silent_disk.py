"""A folder whose disk says nothing any more: nobody is held up who does not need it, or who no longer wants to wait."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

import pytest

from longtake.adapters.storage.files import INCOMING
from longtake.adapters.storage.local import LocalStorage
from tests.storages import chunked
from tests.wait import PATIENCE_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
    from pathlib import Path

KEY = "results/one/token.mp4"


class SilentDisk:
    """Holds every write, until it is told to go on."""

    def __init__(self, write: Callable[[int, Sequence[bytes]], int]) -> None:
        self._write = write
        self.go_on = threading.Event()
        self.descriptors: list[int] = []

    def write(self, descriptor: int, data: Sequence[bytes]) -> int:
        self.descriptors.append(descriptor)
        assert self.go_on.wait(PATIENCE_SECONDS)
        # A descriptor that was closed meanwhile is an error here, or another file's.
        return self._write(descriptor, data)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SilentDisk]:
    silent = SilentDisk(os.writev)
    monkeypatch.setattr(os, "writev", silent.write)
    yield silent
    silent.go_on.set()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "objects"


async def test_names_are_resolved_and_objects_found_while_every_write_hangs(folder: Path, disk: SilentDisk) -> None:
    """F31: the storage fails or is slow."""
    storage = LocalStorage(folder)
    copies = [
        asyncio.create_task(storage.put_stream(f"results/{number}/a.mp4", chunked(b"x"), "", most_bytes=10))
        for number in range(50)
    ]
    await until(lambda: len(disk.descriptors) >= 8)
    async with asyncio.timeout(PATIENCE_SECONDS / 2):
        assert await asyncio.get_running_loop().getaddrinfo("localhost", 80)
        assert await storage.facts(KEY) is None
    disk.go_on.set()
    assert {stored.size for stored in await asyncio.gather(*copies)} == {1}
    await storage.close()


@pytest.mark.parametrize("size", [100, 5_000_000])
async def test_a_stopped_write_does_not_wait_for_the_disk_and_leaves_no_files(
    folder: Path, disk: SilentDisk, size: int
) -> None:
    """F31: the storage fails or is slow."""
    storage = LocalStorage(folder)
    copy = asyncio.create_task(storage.put_stream(KEY, chunked(b"x" * size), "", most_bytes=size))
    await until(lambda: bool(disk.descriptors))
    copy.cancel()
    async with asyncio.timeout(PATIENCE_SECONDS / 2):
        with pytest.raises(asyncio.CancelledError):
            await copy
    [descriptor] = disk.descriptors
    file = os.fstat(descriptor).st_ino
    disk.go_on.set()
    await until(lambda: not list((folder / INCOMING).iterdir()))
    await until(lambda: not _is_open(descriptor, file))
    assert not (folder / KEY).exists()


async def test_a_copy_that_is_stopped_before_its_turn_leaves_nothing(folder: Path, disk: SilentDisk) -> None:
    storage = LocalStorage(folder)
    copies = [
        asyncio.create_task(storage.put_stream(f"results/{number}/a.mp4", chunked(b"x"), "", most_bytes=10))
        for number in range(50)
    ]
    await until(lambda: len(disk.descriptors) >= 8)
    for copy in copies:
        copy.cancel()
    async with asyncio.timeout(PATIENCE_SECONDS / 2):
        await asyncio.wait(copies)
    disk.go_on.set()
    await until(lambda: not list((folder / INCOMING).iterdir()))
    assert (await storage.put_stream(KEY, chunked(b"x"), "", most_bytes=10)).size == 1


async def test_a_file_is_not_closed_while_a_thread_reads_from_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request that is broken off ends like this; the number may be a socket's a moment later."""
    storage = LocalStorage(folder)
    await storage.put(KEY, b"the bytes", "video/mp4")
    held: list[int] = []
    go_on, seen, pread = threading.Event(), threading.Event(), os.pread

    def slowly(descriptor: int, length: int, offset: int) -> bytes:
        held.append(descriptor)
        assert go_on.wait(PATIENCE_SECONDS)
        found = pread(descriptor, length, offset)
        seen.set()
        return found

    monkeypatch.setattr(os, "pread", slowly)
    reading = asyncio.create_task(storage.get(KEY, 100))
    await until(lambda: bool(held))
    file = os.fstat(held[0]).st_ino
    reading.cancel()
    async with asyncio.timeout(PATIENCE_SECONDS / 2):
        with pytest.raises(asyncio.CancelledError):
            await reading
    assert _is_open(held[0], file)
    go_on.set()
    await until(lambda: not _is_open(held[0], file))
    assert seen.is_set()


async def test_a_file_whose_opening_was_not_waited_for_is_closed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(folder)
    await storage.put(KEY, b"the bytes", "video/mp4")
    held: list[int] = []
    begun, go_on, open_file = threading.Event(), threading.Event(), os.open

    def slowly(path: Path, flags: int, mode: int = 0o777) -> int:
        begun.set()
        assert go_on.wait(PATIENCE_SECONDS)
        held.append(open_file(path, flags, mode))
        return held[0]

    monkeypatch.setattr(os, "open", slowly)
    reading = asyncio.create_task(storage.get(KEY, 100))
    await until(begun.is_set)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    file = (folder / KEY).stat().st_ino
    go_on.set()
    await until(lambda: bool(held) and not _is_open(held[0], file))


async def test_a_file_is_closed_when_not_all_of_it_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(folder)
    await storage.put(KEY, bytes(1_000_000), "video/mp4")
    file, held, pread = (folder / KEY).stat().st_ino, [], os.pread

    def noted(descriptor: int, length: int, offset: int) -> bytes:
        held.append(descriptor)
        return pread(descriptor, length, offset)

    monkeypatch.setattr(os, "pread", noted)
    async with aclosing(cast("AsyncGenerator[bytes]", storage.read(KEY))) as chunks:
        assert await anext(chunks)
        assert _is_open(held[0], file)
    assert not _is_open(held[0], file)


def _is_open(descriptor: int, file: int) -> bool:
    try:
        return os.fstat(descriptor).st_ino == file
    except OSError:
        return False
