"""The parent's side of one decoder: a child process that is told of files, and answers in their order."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
import structlog

from longtake.adapters.decoder.block_reader import BLOCK
from longtake.adapters.decoder.messages import LENGTHS, pack, unpack_lengths
from longtake.adapters.decoder.request import Made, Wish
from longtake.errors import DecoderFailed, LongtakeError, MediaRefused

log = structlog.get_logger(__name__)

#: Then a decoder is replaced: whatever a library leaks ends with it. A frame of a video leaves some 12 KB behind.
WISHES_EACH = 10_000
STOP_SECONDS = 2.0
#: No settings, no keys: what the child does not have it cannot give away. Memory of one picture is kept for the next:
#: to get it anew from the system, page by page, takes a third of the time that a poster takes.
ENVIRONMENT = {"LANG": "C.UTF-8", "MALLOC_TRIM_THRESHOLD_": "33554432", "MALLOC_MMAP_THRESHOLD_": "33554432"}
COMMAND = (sys.executable, "-I", "-m", "longtake.adapters.decoder.child")


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


class Decoder:
    """One child process. It may be told of several files at once; then it is not waited for between two of them."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._told = 0
        self._answered = 0

    @staticmethod
    async def start() -> Decoder:
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
        return Decoder(process)

    @property
    def reusable(self) -> bool:
        """Say whether it may be told of more: in the middle of a wish nobody knows what it would say next."""
        return self._told == self._answered < WISHES_EACH

    def tell(self, wish: Wish, source: Source, processor_seconds: float) -> None:
        """Say what is wanted of a file."""
        self._told += 1
        told = {**wish.as_dict(), "size": source.size, "processor_seconds": processor_seconds}
        self._say(told, source.body if isinstance(source, Whole) else b"")

    async def answer(self, source: Source) -> Made:
        """Return what came of the next file that it was told of; the child asks for those parts that it needs."""
        parts = _Parts(source)
        try:
            header, body = await self._hear()
            while "read" in header:
                self._say(*await parts.read(int(header["read"]), int(header["length"])))
                header, body = await self._hear()
            made = _made(header, body, parts.bytes_read)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError, KeyError, TypeError) as error:
            raise DecoderFailed(await self._why(error)) from error
        self._answered += 1
        if parts.trouble is not None:
            raise parts.trouble
        if isinstance(made, MediaRefused):
            raise made
        return made

    async def end(self) -> None:
        """End the process whatever it does; it has nothing that is worth waiting for."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        ended = asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            # That takes but a moment, and nobody else would see it off.
            await ended
            raise

    def _say(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Write without waiting until it is read: a child that waits to be heard reads nothing. There is not much."""
        assert self._process.stdin is not None  # noqa: S101 - it was opened with one
        self._process.stdin.write(pack(header, body))

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


def _made(header: dict[str, Any], body: bytes, bytes_read: int) -> Made | MediaRefused:
    if "refused" in header:
        return MediaRefused(str(header["sentence"])[:300], hint="", reason=str(header["refused"])[:40])
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
