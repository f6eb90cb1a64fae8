"""Objects as files in a folder. What is there is whole: written beside, brought to the disk, then renamed."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import itertools
import os
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVarTuple

import structlog

from longtake.clock import new_id
from longtake.errors import ObjectMissing, StorageFull, StorageRefused, StorageUnavailable
from longtake.storage.flushing import Flushing, to_its_end
from longtake.storage.incoming import Incoming
from longtake.storage.keys import check_key
from longtake.storage.media import type_of_key
from longtake.storage.source import opened_source
from longtake.storage.storage import Facts, Storage, Stored

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence

Ts = TypeVarTuple("Ts")

log = structlog.get_logger(__name__)

#: Its dot keeps it apart from every key.
INCOMING = ".incoming"
READ_BYTES = 256 * 1024
WRITE_BYTES = 1024 * 1024
LISTED_AT_ONCE = 500
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


class LocalStorage(Storage):
    """Only the owner of the process may look into the folder. The content type follows from the key's ending."""

    signs = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, key: str, body: bytes, content_type: str, *, file_name: str | None = None) -> Stored:  # noqa: ARG002
        target = self._path(key)
        await asyncio.to_thread(self._clearly, self._write_whole, target, body)
        return Stored(key, len(body), hashlib.sha256(body).hexdigest())

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
        async with opened_source(chunks, most_bytes=most_bytes, part_bytes=WRITE_BYTES) as source:
            incoming: Incoming = await to_its_end(self._clearly, self._begin)
            flushing = Flushing(partial(self._clearly, incoming.flush))
            try:
                async for part in source.parts():
                    await to_its_end(self._clearly, incoming.write, part)
                    flushing.wrote(len(part))
                await flushing.end()
                await to_its_end(self._clearly, incoming.become, target)
            finally:
                await flushing.close()
                await to_its_end(incoming.discard)
            return Stored(key, source.size, source.checksum)

    async def read(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        path = self._path(key)
        left = None if end is None else max(end - start, 0)
        file = await asyncio.to_thread(self._clearly, _open_at, path, start)
        try:
            while left != 0:
                wanted = READ_BYTES if left is None else min(READ_BYTES, left)
                chunk = await asyncio.to_thread(self._clearly, file.read, wanted)
                if not chunk:
                    return
                left = None if left is None else left - len(chunk)
                yield chunk
        finally:
            file.close()

    async def facts(self, key: str) -> Facts | None:
        path = self._path(key)
        try:
            status: os.stat_result = await asyncio.to_thread(self._clearly, _status, path)
        except ObjectMissing:
            return None
        return _facts(key, status)

    async def existing(self, keys: Sequence[str]) -> list[str]:
        paths = {key: self._path(key) for key in keys}
        there: list[str] = await asyncio.to_thread(self._clearly, _those_there, paths)
        return there

    async def delete(self, keys: Iterable[str]) -> None:
        paths = [self._path(key) for key in keys]
        await asyncio.to_thread(self._clearly, self._remove, paths)

    async def list(self, prefix: str, after: str | None = None) -> AsyncGenerator[Facts, None]:
        found = self._walk(self._path(prefix.rstrip("/")), after or "")
        while batch := await asyncio.to_thread(self._clearly, _take, found):
            for one in batch:
                yield one

    async def remove_unfinished(self, before: datetime) -> int:
        removed: int = await asyncio.to_thread(self._clearly, self._remove_incoming, before)
        return removed

    async def signed_url(self, key: str, seconds: float) -> str | None:  # noqa: ARG002
        """Return None: a file has no address of its own."""
        check_key(key)
        return None

    # -- on a thread ---------------------------------------------------------------------------------------------

    def _path(self, key: str) -> Path:
        return self._folder / check_key(key)

    def _begin(self) -> Incoming:
        folder = self._folder / INCOMING
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Others may have made the folder with other rights; users' media are for nobody else.
        with contextlib.suppress(PermissionError):
            self._folder.chmod(0o700)
        return Incoming(folder / new_id())

    def _write_whole(self, target: Path, body: bytes) -> None:
        incoming = self._begin()
        try:
            incoming.write(body)
            incoming.become(target)
        finally:
            incoming.discard()

    def _remove(self, paths: Iterable[Path]) -> None:
        for path in paths:
            path.unlink(missing_ok=True)
            if path.parent.parent != self._folder:
                with contextlib.suppress(OSError):
                    path.parent.rmdir()

    def _walk(self, folder: Path, after: str) -> Iterator[Facts]:
        """Yield in the order of keys, as buckets do: a folder stands where its name with a slash would."""
        begin = folder.relative_to(self._folder).as_posix()
        for name in _names_in(folder):
            key = f"{begin}/{name}"
            if name.endswith("/") and (key > after or after.startswith(key)):
                yield from self._walk(self._folder / key, after)
            elif key > after and not name.endswith("/"):
                with contextlib.suppress(FileNotFoundError):
                    yield _facts(key, (self._folder / key).stat())

    def _remove_incoming(self, before: datetime) -> int:
        removed = 0
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder / INCOMING) as found:
            for one in found:
                # Whoever still writes changes the time.
                with contextlib.suppress(FileNotFoundError):
                    if one.stat().st_mtime < before.timestamp():
                        Path(one.path).unlink()
                        removed += 1
        return removed

    def _clearly(self, call: Callable[[*Ts], Any], *arguments: *Ts) -> Any:
        """Call; what the system says about a file becomes our error."""
        try:
            return call(*arguments)
        except FileNotFoundError as error:
            raise ObjectMissing("There is no object under this key.") from error
        except OSError as error:
            # The folder's name is for the log: errors reach users.
            reason = error.strerror or type(error).__name__
            log.warning("objects cannot be used", action="storage", folder=str(self._folder), error=reason)
            if error.errno in _NO_ROOM:
                raise StorageFull(f"There is no room for the object: {reason}.") from error
            if error.errno in _NOT_ALLOWED:
                raise StorageRefused(f"The folder of objects cannot be used: {reason}.") from error
            raise StorageUnavailable(f"The folder of objects cannot be used now: {reason}.") from error


def _status(path: Path) -> os.stat_result:
    return path.stat()


def _those_there(paths: Mapping[str, Path]) -> list[str]:
    return [key for key, path in paths.items() if _is_there(path)]


def _is_there(path: Path) -> bool:
    # Unlike Path.exists this does not take a folder that cannot be used for one that is empty.
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True


def _open_at(path: Path, start: int) -> IO[bytes]:
    file = path.open("rb", buffering=0)
    file.seek(start)
    return file


def _names_in(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return sorted(f"{one.name}/" if one.is_dir() else one.name for one in found)
    except FileNotFoundError:
        return []


def _take(found: Iterator[Facts]) -> list[Facts]:
    return list(itertools.islice(found, LISTED_AT_ONCE))


def _facts(key: str, status: os.stat_result) -> Facts:
    modified = datetime.fromtimestamp(status.st_mtime, UTC)
    return Facts(key, status.st_size, f'"{status.st_mtime_ns:x}-{status.st_size:x}"', modified, type_of_key(key))
