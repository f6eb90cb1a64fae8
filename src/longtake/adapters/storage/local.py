"""Objects as files in a folder. Every file is whole: written elsewhere, brought to the disk, then renamed."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVarTuple

import structlog

from longtake.adapters.storage.errors import ObjectMissing, StorageFull, StorageRefused, StorageUnavailable
from longtake.adapters.storage.file_writers import BatchWriter, StreamWriter
from longtake.adapters.storage.files import ReadableFile, TempFolder, Threads
from longtake.adapters.storage.keys import check_key
from longtake.adapters.storage.media_type import type_of_key
from longtake.adapters.storage.storage import NewObject, ObjectFacts, Storage, Stored
from longtake.batch_loader import BatchLoader

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from longtake.adapters.storage.files import TempFile

Ts = TypeVarTuple("Ts")

log = structlog.get_logger(__name__)

READ_BYTES = 256 * 1024
LISTED_AT_ONCE = 500
#: Several, so that some may hang in a write or a flush while others still get through.
WRITERS = 16
READERS = 8
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


class LocalStorage(Storage):
    """The content type follows from the key's ending."""

    signs = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writers = Threads(WRITERS, "objects-write")
        self._readers = Threads(READERS, "objects-read")
        self._temp = TempFolder(folder)
        self._existing = BatchLoader[tuple[str, ...], list[str]](
            lambda asked: self._read(existing_keys, os.fspath(folder), asked)
        )
        self._batches = BatchWriter(self._temp, self._writers, self._translated)

    async def put(self, key: str, body: bytes, content_type: str, *, file_name: str | None = None) -> Stored:
        [stored] = await self.put_all([NewObject(key, body, content_type, file_name)])
        return stored

    async def put_all(self, objects: Sequence[NewObject]) -> Sequence[Stored]:
        checksums = await self._batches.put([(self._path(one.key), one.body) for one in objects])
        return [Stored(one.key, len(one.body), checksum) for one, checksum in zip(objects, checksums, strict=True)]

    async def put_stream(
        self,
        key: str,
        chunks: AsyncIterator[bytes],
        content_type: str,  # noqa: ARG002
        *,
        most_bytes: int,
        file_name: str | None = None,  # noqa: ARG002
    ) -> Stored:
        target = self._path(key)
        file = self._temp.new()
        writer = StreamWriter(file, self._write)
        try:
            await self._write(self._temp.create, file)
            await writer.write(chunks, most_bytes)
            await self._write(self._finish, file, target)
        except asyncio.CancelledError:
            # A stalled disk may hold a thread for hours; a cancelled caller must not wait for it.
            writer.cancel()
            self._writers.leave_to(file.release)
            raise
        except Exception:
            await writer.stop()
            await asyncio.shield(self._writers.call(file.release))
            raise
        return Stored(key, file.size, file.checksum)

    async def read(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        file = ReadableFile(self._path(key))
        at = start
        try:
            while end is None or at < end:
                wanted = READ_BYTES if end is None else min(READ_BYTES, end - at)
                chunk = await self._read(file.read, wanted, at)
                if not chunk:
                    return
                at += len(chunk)
                yield chunk
        finally:
            file.release()

    async def facts(self, key: str) -> ObjectFacts | None:
        path = self._path(key)
        try:
            status: os.stat_result = await self._read(path.stat)
        except ObjectMissing:
            return None
        return _facts_of(key, status)

    async def existing(self, keys: Sequence[str]) -> list[str]:
        return await self._existing.load(tuple(check_key(key) for key in keys)) or []

    async def delete(self, keys: Iterable[str]) -> None:
        paths = [self._path(key) for key in keys]
        await self._read(self._remove, paths)

    async def list(self, prefix: str, after: str | None = None) -> AsyncGenerator[ObjectFacts, None]:
        found = walk(self._folder, self._path(prefix.rstrip("/")), after or "")
        while page := await self._read(_next_page, found):
            for one in page:
                yield one

    async def remove_unfinished(self, before: datetime) -> int:
        removed: int = await self._read(self._temp.remove_unfinished, before)
        return removed

    async def signed_url(self, key: str, seconds: float) -> str | None:  # noqa: ARG002
        """Return None: a file has no address of its own."""
        check_key(key)
        return None

    async def close(self) -> None:
        self._writers.close()
        self._readers.close()

    def _path(self, key: str) -> Path:
        return self._folder / check_key(key)

    def _write(self, call: Callable[[*Ts], Any], *arguments: *Ts) -> asyncio.Future[Any]:
        return self._writers.call(self._translated, call, *arguments)

    def _read(self, call: Callable[[*Ts], Any], *arguments: *Ts) -> asyncio.Future[Any]:
        return self._readers.call(self._translated, call, *arguments)

    # -- on a thread ---------------------------------------------------------------------------------------------

    def _finish(self, file: TempFile, target: Path) -> None:
        self._temp.rename(file, target)
        self._temp.flush_names(target.parent)
        file.release()

    def _remove(self, paths: Iterable[Path]) -> None:
        for path in paths:
            path.unlink(missing_ok=True)
            if path.parent.parent != self._folder:
                with contextlib.suppress(OSError):
                    path.parent.rmdir()

    def _translated(self, call: Callable[[*Ts], Any], *arguments: *Ts) -> Any:
        """Call the function, and raise the system's errors as ours."""
        try:
            return call(*arguments)
        except FileNotFoundError as error:
            raise ObjectMissing("There is no object under this key.") from error
        except OSError as error:
            # Errors reach users: the folder's name belongs in the log only.
            reason = error.strerror or type(error).__name__
            log.warning("objects cannot be used", action="storage", folder=str(self._folder), error=reason)
            if error.errno in _NO_ROOM:
                raise StorageFull(f"There is no room for the object: {reason}.") from error
            if error.errno in _NOT_ALLOWED:
                raise StorageRefused(f"The folder of objects cannot be used: {reason}.") from error
            raise StorageUnavailable(f"The folder of objects cannot be used now: {reason}.") from error


def walk(root: Path, folder: Path, after: str) -> Iterator[ObjectFacts]:
    """Yield objects in the order of keys, as buckets do: a folder sorts as its name followed by a slash."""
    prefix = folder.relative_to(root).as_posix()
    for name in _names_in(folder):
        key = f"{prefix}/{name}"
        if name.endswith("/") and (key > after or after.startswith(key)):
            yield from walk(root, root / key, after)
        elif key > after and not name.endswith("/"):
            with contextlib.suppress(FileNotFoundError):
                yield _facts_of(key, (root / key).stat())


def existing_keys(root: str, lists: Sequence[Sequence[str]]) -> dict[Sequence[str], list[str]]:
    """Return, for each list of keys, those that have a file."""
    return {keys: [key for key in keys if _exists(f"{root}/{key}")] for keys in lists}


def _next_page(found: Iterator[ObjectFacts]) -> list[ObjectFacts]:
    return list(itertools.islice(found, LISTED_AT_ONCE))


def _facts_of(key: str, status: os.stat_result) -> ObjectFacts:
    modified = datetime.fromtimestamp(status.st_mtime, UTC)
    return ObjectFacts(key, status.st_size, f'"{status.st_mtime_ns:x}-{status.st_size:x}"', modified, type_of_key(key))


def _exists(path: str) -> bool:
    # Unlike Path.exists this raises for a folder that cannot be read, instead of taking it for an empty one.
    try:
        os.stat(path)  # noqa: PTH116 - called four times for every poster
    except FileNotFoundError:
        return False
    return True


def _names_in(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return sorted(f"{one.name}/" if one.is_dir() else one.name for one in found)
    except FileNotFoundError:
        return []
