"""The pool of warm decoders: child processes, replaced when they die or have served enough; the files they read."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import orjson
import structlog

from longtake.adapters.decoder.errors import DecoderFailed, DecodersBusy, MediaRefused
from longtake.adapters.decoder.protocol import BLOCK, LENGTHS, DecodeRequest, DecodeResult, pack, unpack_lengths
from longtake.errors import LongtakeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

#: How long a request waits for a decoder. A few slow sources must not use up the time of all other tries.
PLACE_SECONDS = 15.0
#: How many files in memory, and how many bytes of several, are sent to a decoder at once. Sent one by one, the decoder
#: would wait for its busy parent between them for longer than a poster takes.
FILES_AT_ONCE = 16
BYTES_AT_ONCE = 512 * 1024
#: A decoder is replaced after this many requests, because libraries leak: about 12 KB for each frame of a video.
REQUESTS_EACH = 10_000
STOP_SECONDS = 2.0
#: The child gets no settings and no keys, so it cannot leak them. malloc keeps the memory of one picture for the next:
#: getting it from the system again, page by page, takes a third of the time of a poster.
ENVIRONMENT = {"LANG": "C.UTF-8", "MALLOC_TRIM_THRESHOLD_": "33554432", "MALLOC_MMAP_THRESHOLD_": "33554432"}
COMMAND = (sys.executable, "-I", "-m", "longtake.adapters.decoder.child")

log = structlog.get_logger(__name__)


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


class FileSource(Protocol):
    """A file to decode. If `read` raises a LongtakeError, the caller gets that error."""

    @property
    def size(self) -> int: ...

    async def read(self, offset: int, length: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file in memory. It is sent with the request, so that the child need not fetch it."""

    body: bytes

    @property
    def size(self) -> int:
        return len(self.body)

    async def read(self, offset: int, length: int) -> bytes:
        return self.body[offset : offset + length]


class DecoderProcess:
    """One child process. Several requests may be sent at once, so that it does not idle between them."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._sent = 0
        self._answered = 0

    @staticmethod
    async def start() -> DecoderProcess:
        """Start a child."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            stdin=pipe,
            stdout=pipe,
            stderr=asyncio.subprocess.DEVNULL,
            env=ENVIRONMENT,
            # A server may outlive the folder it was started in; without a folder no codec can be loaded.
            cwd="/",
        )
        return DecoderProcess(process)

    @property
    def reusable(self) -> bool:
        """Return whether it can take more requests. After an unfinished one its next answer would be unclear."""
        return self._sent == self._answered < REQUESTS_EACH

    def send(self, request: DecodeRequest, source: FileSource, processor_seconds: float) -> None:
        """Send a request. Its answer comes after those of all earlier requests."""
        self._sent += 1
        header = {**request.as_dict(), "size": source.size, "processor_seconds": processor_seconds}
        self._write(header, source.body if isinstance(source, MemoryFile) else b"")

    async def receive(self, source: FileSource) -> DecodeResult:
        """Return the result of the next request, and serve the ranges of its file that the child reads."""
        parts = _Parts(source)
        try:
            header, body = await self._read()
            while "read" in header:
                self._write(*await parts.read(int(header["read"]), int(header["length"])))
                header, body = await self._read()
            result = _read_result(header, body, parts.bytes_read)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError, KeyError, TypeError) as error:
            raise DecoderFailed(await self._failure(error)) from error
        self._answered += 1
        if parts.error is not None:
            raise parts.error
        if isinstance(result, MediaRefused):
            raise result
        return result

    async def kill(self) -> None:
        """Kill the process. It holds nothing worth waiting for."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        ended = asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            # This takes only a moment, and nothing else would reap the process.
            await ended
            raise

    def _write(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Write without draining: a child that waits for its output to be read reads nothing. The bytes are few."""
        assert self._process.stdin is not None  # noqa: S101 - the process was started with a pipe
        self._process.stdin.write(pack(header, body))

    async def _read(self) -> tuple[dict[str, Any], bytes]:
        assert self._process.stdout is not None  # noqa: S101 - as above
        pipe = self._process.stdout
        head, body = unpack_lengths(await pipe.readexactly(LENGTHS.size))
        return orjson.loads(await pipe.readexactly(head)), await pipe.readexactly(body)

    async def _failure(self, error: Exception) -> str:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self._process.wait()
        code = self._process.returncode
        log.warning("a decoder ended in the middle of a file", action="decode", exit_code=code, error=repr(error)[:200])
        return (
            "The decoder was stopped by its limits, or by the file itself."
            if code
            else "The decoder sent an invalid answer."
        )


class _Parts:
    """Reads ranges of the source for a child, which handles untrusted bytes and may request anything."""

    def __init__(self, source: FileSource) -> None:
        self._source = source
        self.bytes_read = 0
        self.error: LongtakeError | None = None

    async def read(self, offset: int, length: int) -> tuple[dict[str, Any], bytes]:
        if not (0 <= offset < self._source.size and 0 < length <= min(BLOCK, self._source.size - offset)):
            raise ValueError("The child requested a range outside of the file, or longer than a block.")
        try:
            part = await self._source.read(offset, length)
        except LongtakeError as error:
            # The child fails in its own way; after that the caller gets the real error.
            self.error = error
            return {"ok": False}, b""
        self.bytes_read += len(part)
        return {"ok": True}, part


def _read_result(header: dict[str, Any], body: bytes, bytes_read: int) -> DecodeResult | MediaRefused:
    if "refused" in header:
        return MediaRefused(str(header["sentence"])[:300], hint="", reason=str(header["refused"])[:40])
    facts, cut = header["made"], int(header["placeholder"])
    duration = facts["duration_seconds"]
    return DecodeResult(
        int(facts["width"]),
        int(facts["height"]),
        None if duration is None else float(duration),
        body[cut:],
        body[:cut],
        bytes_read,
    )
