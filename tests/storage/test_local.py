"""Objects as files: nobody else may read them, a full disk is told as such, and a killed writer leaves no object."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import random
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from longtake.adapters.storage import NewObject, file_writers
from longtake.adapters.storage.errors import StorageFull, StorageRefused, StorageUnavailable
from longtake.adapters.storage.files import INCOMING, TempFile
from longtake.adapters.storage.local import LocalStorage
from tests.storages import chunked, keys_in
from tests.wait import PATIENCE_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

KEY = "results/one/token.png"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "objects"


def test_only_the_owner_may_look_into_the_folder(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    asyncio.run(LocalStorage(folder).put(KEY, b"x", "image/png"))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / KEY).parent.stat().st_mode & 0o777 == 0o700
    assert (folder / KEY).stat().st_mode & 0o777 == 0o600


async def test_what_is_on_its_way_in_is_neither_listed_nor_left_behind(folder: Path) -> None:
    storage = LocalStorage(folder)
    await storage.put(KEY, b"x", "image/png")
    abandoned = TempFile(folder / INCOMING / "of-a-killed-process")
    abandoned.write([b"half"])
    assert await keys_in(storage, "results") == [KEY]
    abandoned.release()
    with pytest.raises(RuntimeError):
        await storage.put_stream(
            "results/two/t.png", chunked(b"x" * 5_000_000, error=RuntimeError()), "", most_bytes=9**9
        )
    assert list((folder / INCOMING).iterdir()) == []


async def test_the_bytes_of_all_are_on_the_disk_before_the_first_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        steps.append(len(list(folder.glob("posters/*"))))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    files = [NewObject(f"posters/{name}", b"x", "image/png") for name in ("a.png", "b.png")]
    await LocalStorage(folder).put_all(files)
    assert steps == [0, 0, 2, 2], "two files, then the folder with their names, then its own name"


async def test_names_are_brought_to_the_disk_once_for_all_files_and_the_folders_own_only_when_it_is_new(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def noted(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append("file" if path.is_file() else path.relative_to(folder.parent).as_posix())

    monkeypatch.setattr(os, "fsync", noted)
    storage = LocalStorage(folder)
    files = [NewObject(f"posters/{name}", b"x", "image/png") for name in ("a.png", "b.png")]
    await storage.put_all(files)
    assert synced == ["file", "file", "objects/posters", "objects"]
    synced.clear()
    await storage.put_all(files)
    assert synced == ["file", "file", "objects/posters"]
    # Somebody takes it away: it is made again, and its name has to be brought to the disk again.
    shutil.rmtree(folder)
    synced.clear()
    await storage.put_all(files)
    assert synced == ["file", "file", "objects/posters", "objects"]
    # A folder that goes with the last object in it is a new one each time.
    for _ in range(2):
        synced.clear()
        await storage.put(KEY, b"x", "image/png")
        assert synced == ["file", "objects/results/one", "objects/results"]
        await storage.delete([KEY])


@pytest.mark.parametrize(
    ("number", "expected"),
    [("ENOSPC", StorageFull), ("EDQUOT", StorageFull), ("EIO", StorageUnavailable), ("EROFS", StorageRefused)],
)
async def test_a_full_disk_is_reported_and_nothing_is_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: str, expected: type[Exception]
) -> None:
    """F22: the disk is full."""
    code = getattr(errno, number)

    def refuse(_descriptor: int, _data: object) -> int:
        raise OSError(code, os.strerror(code))

    storage = LocalStorage(folder)
    monkeypatch.setattr(os, "writev", refuse)
    with pytest.raises(expected):
        await storage.put(KEY, b"x", "image/png")
    with pytest.raises(expected):
        await storage.put_stream(KEY, chunked(b"x"), "image/png", most_bytes=10)
    monkeypatch.undo()
    assert await storage.facts(KEY) is None
    assert list((folder / INCOMING).iterdir()) == []
    await storage.put(KEY, b"x", "image/png")


async def test_a_folder_that_cannot_be_one_fails_its_check_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "objects").write_text("a file")
    with pytest.raises(StorageRefused, match="Not a directory") as caught:
        await LocalStorage(tmp_path / "objects").check()
    assert "LONGTAKE_STORAGE_URL" in caught.value.hint
    assert str(tmp_path) not in caught.value.message


async def test_writers_and_deleters_of_one_folder_do_not_disturb_each_other(folder: Path) -> None:
    storage = LocalStorage(folder)

    async def come_and_go(number: int) -> None:
        for _ in range(10):
            await storage.put(f"results/same/{number}.png", b"x", "image/png")
            await storage.delete([f"results/same/{number}.png"])

    await asyncio.gather(*(come_and_go(number) for number in range(4)))
    assert await keys_in(storage, "results") == []


async def test_there_is_no_address_of_a_file(folder: Path) -> None:
    assert await LocalStorage(folder).signed_url(KEY, 300) is None


async def test_a_large_file_is_brought_to_the_disk_while_it_comes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_writers, "FLUSH_BYTES", 2_000_000)
    flush, sizes, flushed = TempFile.flush, [], threading.Event()

    def noted(self: TempFile) -> None:
        sizes.append(self.path.stat().st_size)
        flush(self)
        flushed.set()

    async def chunks() -> AsyncIterator[bytes]:
        async for chunk in chunked(b"x" * 8_000_000):
            yield chunk
        assert await asyncio.to_thread(flushed.wait, 20)
        yield b"x" * 1_000_000

    monkeypatch.setattr(TempFile, "flush", noted)
    stored = await LocalStorage(folder).put_stream(KEY, chunks(), "", most_bytes=10**9)
    assert stored.size == (folder / KEY).stat().st_size == 9_000_000
    assert sizes
    assert sizes[0] < 9_000_000


@pytest.mark.parametrize("size", [1, 3, 100_000])
async def test_what_a_disk_takes_in_pieces_is_stored_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """The system may take less than it was given, and takes no more than a number of pieces at once."""
    body, writev, most = random.Random(1).randbytes(3_333_333 if size > 3 else 10_000), os.writev, []

    def reluctantly(descriptor: int, pieces: Sequence[bytes]) -> int:
        most.append(len(pieces))
        given = b"".join(pieces)
        return writev(descriptor, [given[: max(len(given) // 2, 1)]])

    monkeypatch.setattr(os, "writev", reluctantly)
    storage = LocalStorage(folder)
    stored = await storage.put_stream(KEY, chunked(body, size), "", most_bytes=10**9)
    assert (stored.size, stored.checksum) == (len(body), hashlib.sha256(body).hexdigest())
    assert (folder / KEY).read_bytes() == body
    assert max(most) <= 1024


@pytest.mark.parametrize("moment", ["while more is written", "after the last byte"])
async def test_an_error_of_an_early_flush_fails_the_copy(
    folder: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """F22: The system tells it once: the fsync at the end would succeed."""
    monkeypatch.setattr(file_writers, "FLUSH_BYTES", 1_000_000)
    last = threading.Event()

    def refuse(_self: TempFile) -> None:
        if moment == "after the last byte":
            assert last.wait(PATIENCE_SECONDS)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(6):
            yield b"x" * 1_000_000
            await asyncio.sleep(0.01)
        last.set()

    monkeypatch.setattr(TempFile, "flush", refuse)
    storage = LocalStorage(folder)
    with pytest.raises(StorageUnavailable):
        await storage.put_stream(KEY, chunks(), "", most_bytes=10**9)
    assert await storage.facts(KEY) is None
    assert list((folder / INCOMING).iterdir()) == []


async def test_an_error_of_the_flush_that_the_last_bytes_start_fails_the_copy(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F22: As above, and no flush before it could have told."""
    monkeypatch.setattr(file_writers, "FLUSH_BYTES", 2_000_000)
    flush, sizes = TempFile.flush, []

    def refuse_once(self: TempFile) -> None:
        sizes.append(self.size)
        if len(sizes) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        flush(self)

    async def chunks() -> AsyncIterator[bytes]:
        yield b"x" * file_writers.WRITE_BYTES
        yield b"x" * (2_000_000 - file_writers.WRITE_BYTES)

    monkeypatch.setattr(TempFile, "flush", refuse_once)
    storage = LocalStorage(folder)
    with pytest.raises(StorageUnavailable):
        await storage.put_stream(KEY, chunks(), "", most_bytes=10**9)
    assert sizes == [2_000_000]
    assert await storage.facts(KEY) is None


async def test_a_file_is_not_let_go_of_while_it_is_brought_to_the_disk(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its descriptor may be another file's a moment later; nobody waits for that."""
    monkeypatch.setattr(file_writers, "FLUSH_BYTES", 1_000_000)
    begun, go_on, flushed = threading.Event(), threading.Event(), []

    def slowly(descriptor: int) -> None:
        begun.set()
        assert go_on.wait(PATIENCE_SECONDS)
        flushed.append(os.fstat(descriptor).st_size)

    async def endless() -> AsyncIterator[bytes]:
        yield b"x" * 2_000_000
        await asyncio.Event().wait()

    monkeypatch.setattr(os, "fsync", slowly)
    putting = asyncio.create_task(LocalStorage(folder).put_stream(KEY, endless(), "", most_bytes=10**9))
    assert await asyncio.to_thread(begun.wait, 20)
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    assert len(list((folder / INCOMING).iterdir())) == 1
    go_on.set()
    await until(lambda: not list((folder / INCOMING).iterdir()))
    assert len(flushed) == 1
    assert flushed[0] >= 1_000_000
