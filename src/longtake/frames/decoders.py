"""The parent's side: a few warm decoders, each given one wish at a time, replaced when it dies or has done enough."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import orjson
import structlog

from longtake.errors import DecoderFailed, DecodersBusy, LongtakeError, MediaRefused
from longtake.frames.messages import LENGTHS, pack, unpack_lengths
from longtake.frames.reading import BLOCK
from longtake.frames.wishes import Made, Wish

log = structlog.get_logger(__name__)

#: Then a decoder is replaced: whatever a library leaks ends with it.
WISHES_EACH = 2_000
STOP_SECONDS = 2.0
#: Then whoever waits for a decoder comes back later: a few slow sources must not spend the time of everybody's tries.
PLACE_SECONDS = 15.0
#: No settings, no keys: what the child does not have it cannot give away. Memory of one picture is kept for the next:
#: to get it anew from the system, page by page, takes a third of the time that a poster takes.
ENVIRONMENT = {"LANG": "C.UTF-8", "MALLOC_TRIM_THRESHOLD_": "33554432", "MALLOC_MMAP_THRESHOLD_": "33554432"}
COMMAND = (sys.executable, "-I", "-m", "longtake.frames.child")


class Source(Protocol):
    """The file, wherever it is. `read` raises LongtakeError when no more can be had; that error reaches the caller."""

    @property
    def size(self) -> int: ...

    async def read(self, offset: int, length: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Whole:
    """A file that is in memory already: it goes along with the wish, so that the child need not ask for it."""

    body: bytes

    @property
    def size(self) -> int:
        return len(self.body)

    async def read(self, offset: int, length: int) -> bytes:
        return self.body[offset : offset + length]


class Decoders:
    """At most so many children; started when needed, stopped by `close`."""

    def __init__(
        self,
        most: int,
        *,
        wall_seconds: float = 45.0,
        processor_seconds: float = 20.0,
        place_seconds: float = PLACE_SECONDS,
    ) -> None:
        self._places = asyncio.Semaphore(most)
        # Nobody waits for a preview: half of the decoders are left to whoever does wait.
        self._preview_places = asyncio.Semaphore(max(1, most // 2))
        self._idle: list[_Decoder] = []
        self._wall_seconds = wall_seconds
        self._processor_seconds = processor_seconds
        self._place_seconds = place_seconds

    async def make(self, wish: Wish, source: Source) -> Made:
        """Make a picture, or raise MediaRefused: the file is to blame; DecoderFailed: the decoder died of it.

        Or DecodersBusy: nothing was tried.
        """
        async with self._place(wish), self._decoder() as decoder:
            try:
                async with asyncio.timeout(self._wall_seconds):
                    return await decoder.make(wish, source, self._processor_seconds)
            except TimeoutError:
                raise DecoderFailed(f"Decoding took more than {self._wall_seconds:g} s and was stopped.") from None

    async def close(self) -> None:
        """End all children."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(decoder.end() for decoder in idle))

    @contextlib.asynccontextmanager
    async def _place(self, wish: Wish) -> AsyncIterator[None]:
        gates = [self._preview_places, self._places] if wish.what == "preview" else [self._places]
        async with contextlib.AsyncExitStack() as passed:
            try:
                async with asyncio.timeout(self._place_seconds):
                    for gate in gates:
                        await passed.enter_async_context(gate)
            except TimeoutError:
                raise DecodersBusy(f"No decoder was free for {self._place_seconds:g} s.") from None
            yield

    @contextlib.asynccontextmanager
    async def _decoder(self) -> AsyncIterator[_Decoder]:
        decoder = self._idle.pop() if self._idle else await _Decoder.start()
        try:
            yield decoder
        finally:
            await self._keep(decoder)

    async def _keep(self, decoder: _Decoder) -> None:
        if decoder.free and decoder.wishes < WISHES_EACH:
            self._idle.append(decoder)
        else:
            # In the middle of a wish nobody knows what it would say next.
            await decoder.end()


class _Decoder:
    """One child process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.wishes = 0
        self.free = True

    @staticmethod
    async def start() -> _Decoder:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *COMMAND, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, env=ENVIRONMENT
        )
        return _Decoder(process)

    async def make(self, wish: Wish, source: Source, processor_seconds: float) -> Made:
        self.wishes += 1
        self.free = False
        parts = _Parts(source)
        try:
            told = {**asdict(wish), "size": source.size, "processor_seconds": processor_seconds}
            await self._say(told, source.body if isinstance(source, Whole) else b"")
            header, body = await self._hear()
            while "read" in header:
                await self._say(*await parts.read(int(header["read"]), int(header["length"])))
                header, body = await self._hear()
            self.free = True
            if parts.trouble is not None:
                raise parts.trouble
            return _made(header, body, parts.bytes_read)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError, KeyError) as error:
            self.free = False
            raise DecoderFailed(await self._why(error)) from error

    async def end(self) -> None:
        """End the process whatever it does; it has nothing that is worth waiting for."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def _say(self, header: dict[str, Any], body: bytes = b"") -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was opened with one
        self._process.stdin.write(pack(header, body))
        await self._process.stdin.drain()

    async def _hear(self) -> tuple[dict[str, Any], bytes]:
        assert self._process.stdout is not None  # noqa: S101 - as above
        pipe = self._process.stdout
        head, body = unpack_lengths(await pipe.readexactly(LENGTHS.size))
        return orjson.loads(await pipe.readexactly(head)), await pipe.readexactly(body)

    async def _why(self, error: Exception) -> str:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self._process.wait()
        code = self._process.returncode
        log.warning("a decoder ended in the middle of a file", action="decode", exit_code=code, error=repr(error)[:200])
        return (
            "The decoder was stopped by its limits, or by the file itself."
            if code
            else "The decoder answered nonsense."
        )


class _Parts:
    """Hands parts of the source to a child, which has seen bytes of strangers and may ask for anything."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.bytes_read = 0
        self.trouble: LongtakeError | None = None

    async def read(self, offset: int, length: int) -> tuple[dict[str, Any], bytes]:
        if not (0 <= offset < self._source.size and 0 < length <= min(BLOCK, self._source.size - offset)):
            raise ValueError("A part was asked for that is outside of the file, or longer than any of ours.")
        try:
            part = await self._source.read(offset, length)
        except LongtakeError as error:
            # The child gives up in its own way; what really happened is told after that.
            self.trouble = error
            return {"ok": False}, b""
        self.bytes_read += len(part)
        return {"ok": True}, part


def _made(header: dict[str, Any], body: bytes, bytes_read: int) -> Made:
    if "refused" in header:
        raise MediaRefused(str(header["sentence"])[:300], hint="", reason=str(header["refused"])[:40])
    facts, cut = header["made"], int(header["placeholder"])
    duration = facts["duration_seconds"]
    return Made(
        int(facts["width"]),
        int(facts["height"]),
        None if duration is None else float(duration),
        body[cut:],
        body[:cut],
        bytes_read,
    )
