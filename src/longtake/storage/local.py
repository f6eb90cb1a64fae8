"""Objects as files in a folder. What is there is whole: written beside, brought to the disk, then renamed."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVarTuple

import structlog

from longtake.clock import new_id
from longtake.errors import ObjectMissing, StorageFull, StorageRefused, StorageUnavailable
from longtake.storage.flushing import Flushing
from longtake.storage.folder import facts_of, take, those_there, walk
from longtake.storage.incoming import Incoming, sync_folder
from longtake.storage.keys import check_key
from longtake.storage.outgoing import Outgoing
from longtake.storage.source import Batches
from longtake.storage.storage import Facts, NewObject, Storage, Stored
from longtake.storage.threads import Threads

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
    from datetime import datetime

Ts = TypeVarTuple("Ts")

log = structlog.get_logger(__name__)

#: Its dot keeps it apart from every key.
INCOMING = ".incoming"
READ_BYTES = 256 * 1024
WRITE_BYTES = 1024 * 1024
#: Some of them may hang in a write or a flush while others still come through.
WRITERS = 16
READERS = 8
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


class LocalStorage(Storage):
    """Only the owner of the process may look into the folder. The content type follows from the key's ending."""

    signs = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writers = Threads(WRITERS, "objects-write")
        self._readers = Threads(READERS, "objects-read")
        self._prepared = False
        #: Folders that stay whatever is deleted, and whose own names are on the disk.
        self._lasting: set[Path] = set()

    async def put(self, key: str, body: bytes, content_type: str, *, file_name: str | None = None) -> Stored:  # noqa: ARG002
        [checksum] = await self._write(self._write_whole, [(self._path(key), body)])
        return Stored(key, len(body), checksum)

    async def put_all(self, objects: Sequence[NewObject]) -> None:
        await self._write(self._write_whole, [(self._path(one.key), one.body) for one in objects])

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
        incoming = self._incoming()
        flushing = Flushing(partial(self._write, incoming.flush))
        async with Batches(chunks, most_bytes=most_bytes, part_bytes=WRITE_BYTES) as source:
            try:
                await self._write(self._begin, incoming)
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
        paths = {key: self._path(key) for key in keys}
        there: list[str] = await self._read(those_there, paths)
        return there

    async def delete(self, keys: Iterable[str]) -> None:
        paths = [self._path(key) for key in keys]
        await self._read(self._remove, paths)

    async def list(self, prefix: str, after: str | None = None) -> AsyncGenerator[Facts, None]:
        found = walk(self._folder, self._path(prefix.rstrip("/")), after or "")
        while batch := await self._read(take, found):
            for one in batch:
                yield one

    async def remove_unfinished(self, before: datetime) -> int:
        removed: int = await self._read(self._remove_incoming, before)
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

    def _incoming(self) -> Incoming:
        return Incoming(self._folder / INCOMING / new_id())

    def _begin(self, incoming: Incoming) -> None:
        if not self._prepared:
            self._prepare()
        try:
            incoming.begin()
        except FileNotFoundError:
            # Somebody has taken the folder away.
            self._prepare()
            incoming.begin()

    def _prepare(self) -> None:
        (self._folder / INCOMING).mkdir(mode=0o700, parents=True, exist_ok=True)
        # Others may have made the folder with other rights; users' media are for nobody else.
        with contextlib.suppress(PermissionError):
            self._folder.chmod(0o700)
        self._prepared = True

    def _finish(self, incoming: Incoming, target: Path) -> None:
        self._name(incoming, target)
        self._keep_names([target])
        incoming.let_go()

    def _write_whole(self, files: Sequence[tuple[Path, bytes]]) -> Sequence[str]:
        """Write files, and bring their names to the disk together; return their checksums."""
        checksums = []
        for target, body in files:
            incoming = self._incoming()
            try:
                self._begin(incoming)
                incoming.write([body])
                self._name(incoming, target)
            finally:
                incoming.let_go()
            checksums.append(incoming.checksum)
        self._keep_names([target for target, _body in files])
        return checksums

    def _name(self, incoming: Incoming, target: Path) -> None:
        if incoming.become(target):
            self._lasting.discard(target.parent)

    def _keep_names(self, targets: Iterable[Path]) -> None:
        """Bring names of files to the disk, and those of their folders where that was not done before."""
        for folder in dict.fromkeys(target.parent for target in targets):
            sync_folder(folder)
            if folder not in self._lasting:
                sync_folder(folder.parent)
                # What is deleted takes its folder along, but for those right below ours.
                if folder.parent == self._folder:
                    self._lasting.add(folder)

    def _remove(self, paths: Iterable[Path]) -> None:
        for path in paths:
            path.unlink(missing_ok=True)
            if path.parent.parent != self._folder:
                with contextlib.suppress(OSError):
                    path.parent.rmdir()

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
