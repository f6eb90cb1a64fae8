"""Small files are written together, and nobody is harmed by the others."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from longtake.adapters.storage import NewObject
from longtake.adapters.storage.errors import ObjectMissing, StorageFull, StorageUnavailable
from longtake.adapters.storage.file_writers import TOGETHER, WRITING
from longtake.adapters.storage.files import INCOMING, TempFolder
from longtake.adapters.storage.local import LocalStorage
from tests.wait import PATIENCE_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class HeldDisk:
    """Holds all writes until it is told to go on; notes which folders are flushed; refuses what it is told to."""

    def __init__(self) -> None:
        self._writev, self._fsync = os.writev, os.fsync
        self.go_on = threading.Event()
        self.writes = 0
        self.flushed: list[str] = []
        self.refuses: dict[bytes, int] = {}
        self.refuses_folders = False

    def write(self, descriptor: int, pieces: Sequence[bytes]) -> int:
        self.writes += 1
        assert self.go_on.wait(PATIENCE_SECONDS)
        if (number := self.refuses.get(bytes(pieces[0]))) is not None:
            raise OSError(number, os.strerror(number))
        return self._writev(descriptor, pieces)

    def flush(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir():
            self.flushed.append(path.name)
            if self.refuses_folders:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._fsync(descriptor)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldDisk]:
    held = HeldDisk()
    monkeypatch.setattr(os, "writev", held.write)
    monkeypatch.setattr(os, "fsync", held.flush)
    yield held
    held.go_on.set()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "objects"


def putting(storage: LocalStorage, number: int, body: bytes | None = None) -> asyncio.Task[object]:
    new = NewObject(f"posters/{number}.jpg", body or str(number).encode(), "image/jpeg")
    return asyncio.create_task(storage.put_all([new]))


async def occupied(storage: LocalStorage, disk: HeldDisk) -> list[asyncio.Task[object]]:
    """Have every writer hang in a put of its own, so that what comes now gathers."""
    tasks = []
    for number in range(WRITING):
        tasks.append(putting(storage, 1_000 + number))
        await until(lambda number=number: disk.writes == number + 1)  # type: ignore[misc]
    return tasks


async def test_what_comes_while_others_are_written_goes_together(folder: Path, disk: HeldDisk) -> None:
    storage = LocalStorage(folder)
    first = await occupied(storage, disk)
    more = [putting(storage, number) for number in range(2 * TOGETHER)]
    await asyncio.sleep(0)
    disk.go_on.set()
    await asyncio.gather(*first, *more)
    assert disk.flushed.count("posters") == WRITING + 2, "one flush of names for each that went together"
    assert {int(path.stem): int(path.read_bytes()) for path in (folder / "posters").iterdir()} == {
        number: number for number in (*range(2 * TOGETHER), *range(1_000, 1_000 + WRITING))
    }
    assert list((folder / INCOMING).iterdir()) == []


async def test_a_file_that_cannot_be_written_harms_no_other(folder: Path, disk: HeldDisk) -> None:
    """F22: the disk is full."""
    storage = LocalStorage(folder)
    first = await occupied(storage, disk)
    disk.refuses[b"3"] = errno.ENOSPC
    more = [putting(storage, number) for number in range(8)]
    await asyncio.sleep(0)
    disk.go_on.set()
    answers = await asyncio.gather(*first, *more, return_exceptions=True)
    assert [type(one) for one in answers if isinstance(one, Exception)] == [StorageFull]
    assert isinstance(answers[WRITING + 3], StorageFull)
    assert not (folder / "posters" / "3.jpg").exists()
    assert (folder / "posters" / "4.jpg").read_bytes() == b"4"
    assert list((folder / INCOMING).iterdir()) == []


async def test_names_that_did_not_reach_the_disk_are_told_to_all_whose_they_are(folder: Path, disk: HeldDisk) -> None:
    storage = LocalStorage(folder)
    first = await occupied(storage, disk)
    more = [putting(storage, number) for number in range(4)]
    await asyncio.sleep(0)
    disk.refuses_folders = True
    disk.go_on.set()
    answers = await asyncio.gather(*first, *more, return_exceptions=True)
    assert {type(one) for one in answers} == {StorageUnavailable}


async def test_a_folder_that_goes_is_of_no_concern_to_files_elsewhere(
    folder: Path, disk: HeldDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(folder)
    first = await occupied(storage, disk)
    keys = ["results/a/1.jpg", "results/b/1.jpg", "posters/c.jpg"]
    more = [asyncio.create_task(storage.put(key, key.encode(), "image/jpeg")) for key in keys]
    await asyncio.sleep(0)
    flush_names = TempFolder.flush_names

    def delete_before(names: TempFolder, where: Path) -> None:
        if where.name == "a":
            storage._remove([folder / keys[0]])
        flush_names(names, where)

    monkeypatch.setattr(TempFolder, "flush_names", delete_before)
    disk.go_on.set()
    answers = await asyncio.gather(*more, *first, return_exceptions=True)
    assert [type(one) for one in answers if isinstance(one, Exception)] == [ObjectMissing]
    assert [(folder / key).exists() for key in keys] == [False, True, True]


async def test_nothing_waits_for_a_store_that_is_closed(folder: Path, disk: HeldDisk) -> None:
    storage = LocalStorage(folder)
    first = await occupied(storage, disk)
    more = [putting(storage, number) for number in range(4)]
    await asyncio.sleep(0)
    await storage.close()
    disk.go_on.set()
    answers = await asyncio.gather(*more, *first, return_exceptions=True)
    assert [isinstance(one, RuntimeError) for one in answers] == [True] * 4 + [False] * WRITING


async def test_what_nobody_thought_of_is_not_told_as_success(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class UnthoughtOfError(BaseException):
        pass

    def fail(*_arguments: object) -> None:
        raise UnthoughtOfError

    monkeypatch.setattr(TempFolder, "flush_names", fail)
    with pytest.raises(UnthoughtOfError):
        await LocalStorage(folder).put("posters/1.jpg", b"1", "image/jpeg")


async def test_whoever_is_stopped_before_its_turn_writes_nothing(folder: Path, disk: HeldDisk) -> None:
    storage = LocalStorage(folder)
    first = await occupied(storage, disk)
    more = [putting(storage, number) for number in range(4)]
    await asyncio.sleep(0)
    for task in (*more[::2], first[0]):
        task.cancel()
    disk.go_on.set()
    await asyncio.gather(*first, *more, return_exceptions=True)
    await until(lambda: not list((folder / INCOMING).iterdir()))
    written = sorted(int(path.stem) for path in (folder / "posters").iterdir())
    assert written[:2] == [1, 3], "what had begun comes to its end, what had not never begins"
    assert len(written) == 2 + WRITING


async def test_a_large_file_does_not_wait_with_many_others(folder: Path, disk: HeldDisk) -> None:
    storage = LocalStorage(folder)
    first = await occupied(storage, disk)
    more = [putting(storage, number, bytes([number]) * 3_000_000) for number in range(1, 4)]
    await asyncio.sleep(0)
    disk.go_on.set()
    await asyncio.gather(*first, *more)
    assert disk.flushed.count("posters") == WRITING + 3
