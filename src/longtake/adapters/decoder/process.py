"""The parent's side of one decoder: a child process that gets requests and answers them in order."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
import structlog

from longtake.adapters.decoder.block_reader import BLOCK
from longtake.adapters.decoder.protocol import LENGTHS, DecodeRequest, DecodeResult, pack, unpack_lengths
from longtake.errors import DecoderFailed, LongtakeError, MediaRefused

log = structlog.get_logger(__name__)

#: A decoder is replaced after this many requests, because libraries leak: about 12 KB for each frame of a video.
REQUESTS_EACH = 10_000
STOP_SECONDS = 2.0
#: The child gets no settings and no keys, so it cannot leak them. malloc keeps the memory of one picture for the next:
#: getting it from the system again, page by page, takes a third of the time of a poster.
ENVIRONMENT = {"LANG": "C.UTF-8", "MALLOC_TRIM_THRESHOLD_": "33554432", "MALLOC_MMAP_THRESHOLD_": "33554432"}
COMMAND = (sys.executable, "-I", "-m", "longtake.adapters.decoder.child")


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
