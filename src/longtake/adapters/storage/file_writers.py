"""Writes files to the disk: small ones that are already in memory together, a large one while it arrives."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from longtake.adapters.storage.errors import ObjectTooLarge
from longtake.adapters.storage.storage import retrieve_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from longtake.adapters.storage.files import TempFile, TempFolder, Threads

    #: Calls a function and raises the system's errors as ours.
    Translated = Callable[..., Any]

#: How much of a large file is hashed and written at once, and how much is written between two flushes.
WRITE_BYTES = 1024 * 1024
FLUSH_BYTES = 32 * 1024 * 1024
#: How many batches are written at once: one that hangs does not stop the others, and new files gather meanwhile.
WRITING = 3
#: The most puts in a batch, and the most bytes in a batch of several.
TOGETHER = 16
BYTES_TOGETHER = 4 * 1024 * 1024


@dataclass(slots=True, eq=False)
class _Put:
    """Files that belong together. `ended` gets their checksums, or an error that concerns no other put."""

    files: Sequence[tuple[Path, bytes]]
    ended: asyncio.Future[list[str]]
    #: The caller's logging context.
    context: Context = field(default_factory=copy_context)
    written: list[TempFile] = field(default_factory=list)
    error: BaseException | None = None

    @property
    def size(self) -> int:
        return sum(len(body) for _target, body in self.files)

    def attempt(self, step: Callable[[_Put], None], translated: Translated) -> None:
        if self.error is None:
            try:
                self.context.run(translated, step, self)
            except Exception as error:  # noqa: BLE001 - the caller that waits for these files gets it
                self.error = error

    def end(self) -> None:
        # A cancelled caller no longer waits.
        if self.ended.done():
            return
        if self.error is not None:
            self.ended.set_exception(self.error)
        else:
            self.ended.set_result([one.checksum for one in self.written])


class BatchWriter:
    """Writes files in memory. Those that arrive while others are being written go in one batch.

    One by one, each small file would cost a thread switch and two waits for the disk's journal, one for its bytes and
    one for its name: three times the processor time of a batch.

    It belongs to one event loop; `_write` and the methods below it run on threads.
    """

    def __init__(self, folder: TempFolder, writers: Threads, translated: Translated) -> None:
        self._folder = folder
        self._writers = writers
        self._translated = translated
        self._waiting: deque[_Put] = deque()
        self._writing = 0

    async def put(self, files: Sequence[tuple[Path, bytes]]) -> list[str]:
        """Write files and return their checksums. When one fails, those before it may be stored, whole."""
        put = _Put(files, asyncio.get_running_loop().create_future())
        self._waiting.append(put)
        self._write_next()
        return await put.ended

    def _write_next(self) -> None:
        while self._writing < WRITING and (puts := self._take()):
            try:
                call = self._writers.call(self._write, puts)
            except RuntimeError as closed:
                self._end(puts, closed)
                continue
            self._writing += 1
            call.add_done_callback(partial(self._written, puts))

    def _take(self) -> list[_Put]:
        taken: list[_Put] = []
        size = 0
        while self._waiting and len(taken) < TOGETHER:
            size += self._waiting[0].size
            if taken and size > BYTES_TOGETHER:
                break
            put = self._waiting.popleft()
            # A put whose caller was cancelled before its turn is never written.
            if not put.ended.done():
                taken.append(put)
        return taken

    def _written(self, puts: Sequence[_Put], call: asyncio.Future[None]) -> None:
        self._writing -= 1
        # An unexpected error of the batch must not pass for success.
        self._end(puts, call.exception())
        self._write_next()

    @staticmethod
    def _end(puts: Sequence[_Put], error: BaseException | None) -> None:
        for put in puts:
            put.error = put.error or error
            put.end()

    # -- on a thread ---------------------------------------------------------------------------------------------

    def _write(self, puts: Sequence[_Put]) -> None:
        try:
            # All bytes are on their way to the disk before the first flush waits, and no file gets its name before the
            # last flush: that makes nearly one wait for the whole batch.
            for step in (self._create, self._flush_soon, self._flush, self._rename):
                for put in puts:
                    put.attempt(step, self._translated)
            self._flush_names([put for put in puts if put.error is None])
        finally:
            for put in puts:
                for file in put.written:
                    file.release()

    def _create(self, put: _Put) -> None:
        for _target, body in put.files:
            file = self._folder.new()
            put.written.append(file)
            self._folder.create(file)
            file.hash([body])
            file.write([body])

    def _flush_soon(self, put: _Put) -> None:
        for file in put.written:
            file.flush_soon()

    def _flush(self, put: _Put) -> None:
        for file in put.written:
            file.flush()

    def _rename(self, put: _Put) -> None:
        for file, (target, _body) in zip(put.written, put.files, strict=True):
            self._folder.rename(file, target)

    def _flush_names(self, puts: Sequence[_Put]) -> None:
        puts_in: dict[Path, list[_Put]] = {}
        for put in puts:
            for target, _body in put.files:
                puts_in.setdefault(target.parent, []).append(put)
        for folder, theirs in puts_in.items():
            # Once per folder: the system reports a lost write to one flush only.
            try:
                self._translated(self._folder.flush_names, folder)
            except Exception as error:  # noqa: BLE001 - as above
                for put in theirs:
                    put.error = error


class StreamWriter:
    """Writes one large file as its bytes arrive, and flushes it meanwhile, so that little is left for its end.

    While one batch is hashed and written, each on a thread of its own, the next one gathers. ``call`` calls a function
    on a thread.
    """

    def __init__(self, file: TempFile, call: Callable[..., asyncio.Future[Any]]) -> None:
        self._file = file
        self._call = call
        self._writing: asyncio.Task[None] | None = None
        self._flushing: asyncio.Future[None] | None = None

    async def write(self, chunks: AsyncIterator[bytes], most_bytes: int) -> None:
        """Write all chunks. After an error, `stop` or `cancel` before the file is given up."""
        batch: list[bytes] = []
        size = held = 0
        try:
            async for chunk in chunks:
                size += len(chunk)
                if size > most_bytes:
                    raise ObjectTooLarge(f"The file has more than {most_bytes:,} bytes.", limit=most_bytes)
                batch.append(chunk)
                held += len(chunk)
                if held >= WRITE_BYTES:
                    await self._start(batch)
                    batch, held = [], 0
        finally:
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()
        await self._start(batch)
        await self._finish()

    async def stop(self) -> None:
        """Wait until no batch is being written. Its error is dropped."""
        if self._writing is not None:
            await asyncio.wait({self._writing})

    def cancel(self) -> None:
        """Leave alone what a thread is writing; what has not begun never begins."""
        if self._writing is not None:
            self._writing.cancel()

    async def _finish(self) -> None:
        """Wait for the last batch, then for the flush that it may have started."""
        if self._writing is not None:
            await self._writing
        if self._flushing is not None:
            await self._flushing

    async def _start(self, batch: list[bytes]) -> None:
        """Start to write a batch when the one before it is written; raise the error of that one."""
        if self._writing is not None:
            await self._writing
        self._writing = asyncio.create_task(self._write(batch))
        self._writing.add_done_callback(retrieve_error)

    async def _write(self, batch: list[bytes]) -> None:
        await asyncio.gather(self._call(self._file.hash, batch), self._call(self._file.write, batch))
        if self._file.unflushed < FLUSH_BYTES:
            return
        if self._flushing is not None:
            if not self._flushing.done():
                return
            # No outcome is dropped: the system reports a lost write to one flush only, and later ones succeed.
            self._flushing.result()
        self._flushing = self._call(self._file.flush)
        self._flushing.add_done_callback(retrieve_error)
