"""Files that are in memory already, on their way to the disk; those that come while others are written go together.

Many small files at a time would otherwise be a thread's turn, and a wait for the disk's journal, for each of them and
for the name of each: three times the processor time that it takes together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from longtake.adapters.storage.temp_file import Incoming
    from longtake.adapters.storage.temp_folder import IncomingFolder
    from longtake.adapters.storage.threads import Threads

    #: Calls a function; what the system says becomes our error.
    Clearly = Callable[..., Any]

#: How many threads write at once: one that hangs does not stop the others, and what comes meanwhile gathers.
WRITING = 3
#: How many are written together at most, and how many bytes where there are several.
TOGETHER = 16
BYTES_TOGETHER = 4 * 1024 * 1024


@dataclass(slots=True, eq=False)
class _Put:
    """Files that belong together; `ended` has their checksums, or an error that is of no concern to other puts."""

    files: Sequence[tuple[Path, bytes]]
    ended: asyncio.Future[list[str]]
    #: What is logged on the thread still says whose work it is.
    context: Context = field(default_factory=copy_context)
    incoming: list[Incoming] = field(default_factory=list)
    error: BaseException | None = None

    @property
    def size(self) -> int:
        return sum(len(body) for _target, body in self.files)

    def attempt(self, step: Callable[[_Put], None], clearly: Clearly) -> None:
        if self.error is None:
            try:
                self.context.run(clearly, step, self)
            except Exception as error:  # noqa: BLE001 - it is for whoever waits for these files
                self.error = error

    def end(self) -> None:
        # Whoever was stopped meanwhile does not wait any more.
        if self.ended.done():
            return
        if self.error is not None:
            self.ended.set_exception(self.error)
        else:
            self.ended.set_result([one.checksum for one in self.incoming])


class WholeFiles:
    """Lives on one event loop; `_bring` and what is below it run on threads."""

    def __init__(self, folder: IncomingFolder, writers: Threads, clearly: Clearly) -> None:
        self._folder = folder
        self._writers = writers
        self._clearly = clearly
        self._waiting: deque[_Put] = deque()
        self._writing = 0

    async def put(self, files: Sequence[tuple[Path, bytes]]) -> list[str]:
        """Write files; return their checksums. When one fails, those before it may be there, whole."""
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
            # What has not begun when whoever asked for it is stopped never does.
            if not put.ended.done():
                taken.append(put)
        return taken

    def _written(self, puts: Sequence[_Put], call: asyncio.Future[None]) -> None:
        self._writing -= 1
        # Whatever nobody thought of must not be told as success.
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
            # All bytes are on their way before the first wait for the disk, and none gets its name before the last:
            # then it is one wait for all, or nearly.
            for step in (self._bring, self._send, self._flush, self._name):
                for put in puts:
                    put.attempt(step, self._clearly)
            self._keep_names([put for put in puts if put.error is None])
        finally:
            for put in puts:
                for incoming in put.incoming:
                    incoming.let_go()

    def _bring(self, put: _Put) -> None:
        for _target, body in put.files:
            incoming = self._folder.new()
            put.incoming.append(incoming)
            self._folder.begin(incoming)
            incoming.write([body])

    def _send(self, put: _Put) -> None:
        for incoming in put.incoming:
            incoming.flush_soon()

    def _flush(self, put: _Put) -> None:
        for incoming in put.incoming:
            incoming.flush()

    def _name(self, put: _Put) -> None:
        for incoming, (target, _body) in zip(put.incoming, put.files, strict=True):
            self._folder.name(incoming, target)

    def _keep_names(self, puts: Sequence[_Put]) -> None:
        within: dict[Path, list[_Put]] = {}
        for put in puts:
            for target, _body in put.files:
                within.setdefault(target.parent, []).append(put)
        for folder, theirs in within.items():
            # Asked once: the system tells one flush only of what could not be written.
            try:
                self._clearly(self._folder.keep_names, folder)
            except Exception as error:  # noqa: BLE001 - as above
                for put in theirs:
                    put.error = error
