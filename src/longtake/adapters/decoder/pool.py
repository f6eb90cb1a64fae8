"""The pool of warm decoders, which are replaced when they die or have served enough requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longtake.adapters.decoder.process import DecoderProcess, FileSource, MemoryFile
from longtake.errors import DecoderFailed, DecodersBusy, MediaRefused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from longtake.adapters.decoder.protocol import DecodeRequest, DecodeResult

#: How long a request waits for a decoder. A few slow sources must not use up the time of all other tries.
PLACE_SECONDS = 15.0
#: How many files in memory, and how many bytes of several, are sent to a decoder at once. Sent one by one, the decoder
#: would wait for its busy parent between them for longer than a poster takes.
FILES_AT_ONCE = 16
BYTES_AT_ONCE = 512 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class _QueuedFile:
    """A file in memory that waits for a decoder. Its caller has stopped waiting once `result` is done."""

    request: DecodeRequest
    source: MemoryFile
    result: asyncio.Future[DecodeResult]
    timeout: asyncio.Timeout
    deadline: float | None

    def finish(self, result: DecodeResult | BaseException) -> None:
        """Pass the result or error on, if the caller still waits."""
        if self.result.done():
            return
        if isinstance(result, BaseException):
            self.result.set_exception(result)
        else:
            self.result.set_result(result)


class DecoderPool:
    """At most `most` child processes, started when needed and stopped by `close`."""

    def __init__(
        self,
        most: int,
        *,
        wall_seconds: float = 45.0,
        processor_seconds: float = 20.0,
        place_seconds: float = PLACE_SECONDS,
    ) -> None:
        self._most = most
        self._places = asyncio.Semaphore(most)
        # No user waits for a preview: half of the decoders stay free for other requests.
        self._preview_places = asyncio.Semaphore(max(1, most // 2))
        self._idle: list[DecoderProcess] = []
        self._waiting: deque[_QueuedFile] = deque()
        self._serving: set[asyncio.Task[None]] = set()
        self._wall_seconds = wall_seconds
        self._processor_seconds = processor_seconds
        self._place_seconds = place_seconds

    async def decode(self, request: DecodeRequest, source: FileSource) -> DecodeResult:
        """Make a picture of the file.

        Raises MediaRefused if the file is at fault, DecoderFailed if the decoder died of it, and DecodersBusy if no
        decoder was free.
        """
        if isinstance(source, MemoryFile):
            return await self._decode_with_others(request, source)
        async with self._place(request), self._decoder() as decoder:
            decoder.send(request, source, self._processor_seconds)
            return await self._receive(decoder, source)

    async def close(self) -> None:
        """Stop all children. Requests that wait get DecodersBusy."""
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        while self._waiting:
            self._waiting.popleft().finish(DecodersBusy("The decoders have been closed."))
        idle, self._idle = self._idle, []
        await asyncio.gather(*(decoder.kill() for decoder in idle))

    # -- files in memory, several at a time ----------------------------------------------------------------------

    async def _decode_with_others(self, request: DecodeRequest, source: MemoryFile) -> DecodeResult:
        try:
            async with asyncio.timeout(self._place_seconds) as timeout:
                future = asyncio.get_running_loop().create_future()
                queued = _QueuedFile(request, source, future, timeout, timeout.when())
                self._waiting.append(queued)
                # A finished task leaves the set only a moment later, so finished ones must not be counted.
                if sum(not task.done() for task in self._serving) < self._most:
                    task = asyncio.create_task(self._serve())
                    self._serving.add(task)
                    task.add_done_callback(self._serving.discard)
                return await queued.result
        except TimeoutError:
            raise self._busy() from None

    async def _serve(self) -> None:
        while self._waiting:
            # The place is given back after each batch, because other requests wait for it too.
            async with self._places:
                if batch := self._next_batch():
                    await self._serve_batch(batch)

    def _next_batch(self) -> list[_QueuedFile]:
        """Take the next files off the queue. From now on they do not time out."""
        batch: list[_QueuedFile] = []
        size = 0
        while self._waiting and len(batch) < FILES_AT_ONCE:
            queued = self._waiting[0]
            if queued.result.done():
                self._waiting.popleft()
                continue
            size += queued.source.size
            if batch and size > BYTES_AT_ONCE:
                break
            self._waiting.popleft()
            queued.timeout.reschedule(None)
            batch.append(queued)
        return batch

    async def _serve_batch(self, batch: Sequence[_QueuedFile]) -> None:
        try:
            async with self._decoder() as decoder:
                for queued in batch:
                    decoder.send(queued.request, queued.source, self._processor_seconds)
                for number, queued in enumerate(batch, 1):
                    try:
                        queued.finish(await self._receive(decoder, queued.source))
                    except MediaRefused as refusal:
                        queued.finish(refusal)
                    except DecoderFailed as failure:
                        queued.finish(failure)
                        # Only this file is at fault; the others are next.
                        self._put_back(batch[number:])
                        return
        except BaseException as error:
            for queued in batch:
                queued.finish(error)
            if not isinstance(error, Exception):
                raise

    def _put_back(self, batch: Sequence[_QueuedFile]) -> None:
        """Put files back at the head of the queue, with their former deadlines."""
        for queued in reversed(batch):
            if not queued.result.done():
                queued.timeout.reschedule(queued.deadline)
                self._waiting.appendleft(queued)

    # -- places and children -------------------------------------------------------------------------------------

    async def _receive(self, decoder: DecoderProcess, source: FileSource) -> DecodeResult:
        try:
            async with asyncio.timeout(self._wall_seconds):
                return await decoder.receive(source)
        except TimeoutError:
            raise DecoderFailed(f"Decoding took more than {self._wall_seconds:g} s and was stopped.") from None

    @contextlib.asynccontextmanager
    async def _place(self, request: DecodeRequest) -> AsyncIterator[None]:
        gates = [self._preview_places, self._places] if request.what == "preview" else [self._places]
        async with contextlib.AsyncExitStack() as passed:
            try:
                async with asyncio.timeout(self._place_seconds):
                    for gate in gates:
                        await passed.enter_async_context(gate)
            except TimeoutError:
                raise self._busy() from None
            yield

    def _busy(self) -> DecodersBusy:
        return DecodersBusy(f"No decoder was free for {self._place_seconds:g} s.")

    @contextlib.asynccontextmanager
    async def _decoder(self) -> AsyncIterator[DecoderProcess]:
        decoder = self._idle.pop() if self._idle else await DecoderProcess.start()
        try:
            yield decoder
        finally:
            if decoder.reusable:
                self._idle.append(decoder)
            else:
                await decoder.kill()
