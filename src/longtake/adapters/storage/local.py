"""Objects as files in a folder. What is there is whole: written beside, brought to the disk, then renamed."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVarTuple

import structlog

from longtake.adapters.storage.batch_writer import WholeFiles
from longtake.adapters.storage.flush import Flushing
from longtake.adapters.storage.folder import facts_of, take, those_there, walk
from longtake.adapters.storage.keys import check_key
from longtake.adapters.storage.open_file import Outgoing
from longtake.adapters.storage.source import Batches
from longtake.adapters.storage.storage import Facts, NewObject, Storage, Stored
from longtake.adapters.storage.temp_folder import IncomingFolder
from longtake.adapters.storage.threads import Threads
from longtake.batch_loader import BatchLoader
from longtake.errors import ObjectMissing, StorageFull, StorageRefused, StorageUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
    from datetime import datetime
    from pathlib import Path

    from longtake.adapters.storage.temp_file import Incoming

Ts = TypeVarTuple("Ts")

log = structlog.get_logger(__name__)

READ_BYTES = 256 * 1024
WRITE_BYTES = 1024 * 1024
#: Some of them may hang in a write or a flush while others still come through.
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
        self._incoming = IncomingFolder(folder)
        self._looks = BatchLoader[tuple[str, ...], list[str]](
            lambda asked: self._read(those_there, os.fspath(folder), asked)
        )
        self._whole = WholeFiles(self._incoming, self._writers, self._clearly)

    async def put(self, key: str, body: bytes, content_type: str, *, file_name: str | None = None) -> Stored:
        [stored] = await self.put_all([NewObject(key, body, content_type, file_name)])
        return stored

    async def put_all(self, objects: Sequence[NewObject]) -> Sequence[Stored]:
        checksums = await self._whole.put([(self._path(one.key), one.body) for one in objects])
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
        incoming = self._incoming.new()
        flushing = Flushing(partial(self._write, incoming.flush))
        async with Batches(chunks, most_bytes=most_bytes, part_bytes=WRITE_BYTES) as source:
            try:
                await self._write(self._incoming.begin, incoming)
                async for batch in source.parts():
                    flushing.wrote(await self._write(incoming.write, batch))
                await flushing.end()
                await self._write(self._finish, incoming, target)
            except asyncio.CancelledError:
                # A silent disk may keep a thread for hours; whoever has no time left must not wait for that.
                self._writers.leave_to(incoming.let_go)
                raise
            except Exception:
                await asyncio.shield(self._writers.call(incoming.let_go))
                raise
            return Stored(key, source.size, incoming.checksum)

    async def read(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        file = Outgoing(self._path(key))
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
            # At once, if no thread reads from it; else by that thread, when it is done.
            file.let_go()

    async def facts(self, key: str) -> Facts | None:
        path = self._path(key)
        try:
            status: os.stat_result = await self._read(path.stat)
        except ObjectMissing:
            return None
        return facts_of(key, status)

    async def existing(self, keys: Sequence[str]) -> list[str]:
        return await self._looks.load(tuple(check_key(key) for key in keys)) or []

    async def delete(self, keys: Iterable[str]) -> None:
        paths = [self._path(key) for key in keys]
        await self._read(self._remove, paths)

    async def list(self, prefix: str, after: str | None = None) -> AsyncGenerator[Facts, None]:
        found = walk(self._folder, self._path(prefix.rstrip("/")), after or "")
        while batch := await self._read(take, found):
            for one in batch:
                yield one

    async def remove_unfinished(self, before: datetime) -> int:
        removed: int = await self._read(self._incoming.remove_unfinished, before)
        return removed

    async def signed_url(self, key: str, seconds: float) -> str | None:  # noqa: ARG002
        """Return None: a file has no address of its own."""
        check_key(key)
        return None

    async def close(self) -> None:
        self._writers.close()
        self._readers.close()

    def _write(self, call: Callable[[*Ts], Any], *arguments: *Ts) -> asyncio.Future[Any]:
        return self._writers.call(self._clearly, call, *arguments)

    def _read(self, call: Callable[[*Ts], Any], *arguments: *Ts) -> asyncio.Future[Any]:
        return self._readers.call(self._clearly, call, *arguments)

    # -- on a thread ---------------------------------------------------------------------------------------------

    def _path(self, key: str) -> Path:
        return self._folder / check_key(key)

    def _finish(self, incoming: Incoming, target: Path) -> None:
        self._incoming.name(incoming, target)
        self._incoming.keep_names(target.parent)
        incoming.let_go()

    def _remove(self, paths: Iterable[Path]) -> None:
        for path in paths:
            path.unlink(missing_ok=True)
            if path.parent.parent != self._folder:
                with contextlib.suppress(OSError):
                    path.parent.rmdir()

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
