"""Answers: whole in memory when they are small, piece by piece when they are media."""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from longtake.adapters.net.failures import FAILURES, translate
from longtake.adapters.net.urls import shown_url
from longtake.errors import AnswerInvalid, AnswerTooLarge, AnswerTruncated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from aiohttp import ClientResponse, StreamReader

#: As much as comes at once from a fast connection; smaller pieces cost a copy processor time.
PIECE_BYTES = 256 * 1024
#: A packed answer may grow by this, if it is not small anyway.
RATIO_MOST = 100
RATIO_FROM_BYTES = 64 * 1024
_PLAIN = ("", "identity")
_PACKED = ("gzip", "x-gzip", "deflate")


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; names of headers are the same in capitals and small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    url: str = field(default="", repr=False)

    def json(self) -> Any:
        """Return the body as data, or raise AnswerInvalid."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            raise AnswerInvalid(
                f"{shown_url(self.url)} answered {self.status} with what is not JSON.", sent=True
            ) from None


class StreamedAnswer:
    """An answer whose body is read once, in pieces, and is checked to be whole at its end."""

    def __init__(self, response: ClientResponse, url: str, *, most_bytes: int, seconds: float, stall: float) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        #: Where the answer came from at last, after all redirects.
        self.url = url
        self.length = _length(response)
        self._response = response
        self._shown = shown = shown_url(url)
        self._most_bytes = most_bytes
        self._seconds = seconds
        self._stall = stall
        if self.length is not None and self.length > most_bytes and response.method != "HEAD":
            raise _too_large(shown, most_bytes)
        if response.headers.get("Content-Encoding", "").strip().lower() not in _PLAIN:
            raise AnswerInvalid(f"{shown} packs its answer, though it was asked not to.", sent=True)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body; an error at any point means that what came so far is not the file."""
        received, failure, content = 0, None, self._response.content
        # At its end nothing is asked any more: whoever took long over the last piece would hear of a slow server.
        while failure is None and not content.at_eof():
            try:
                async with asyncio.timeout(self._stall):
                    piece = await content.read(PIECE_BYTES)
            except FAILURES as error:
                failure, piece = translate(error, self._shown, self._seconds, sent=True), _rest(content)
            received += len(piece)
            if received > self._most_bytes:
                raise _too_large(self._shown, self._most_bytes)
            if piece:
                yield piece
        if failure is not None:
            raise failure
        if self.length is not None and received != self.length and self._response.method != "HEAD":
            raise AnswerTruncated(f"{self._shown} sent {received} of {self.length} bytes.", sent=True)


def _rest(content: StreamReader) -> bytes:
    """Return what came before a failure and was not taken; it would have to be fetched again."""
    # While it knows of the failure it keeps the bytes back.
    content.set_exception(None)  # type: ignore[arg-type]
    try:
        return content.read_nowait()
    except FAILURES:
        return b""


def _length(response: ClientResponse) -> int | None:
    """Return the length that was announced, when it is the length of the body."""
    return response.content_length if "Transfer-Encoding" not in response.headers else None


async def read_whole(response: ClientResponse, url: str, most_bytes: int, seconds: float) -> bytes:
    """Return the body, unpacked if it is packed, never more than `most_bytes`."""
    if (_length(response) or 0) > most_bytes and response.method != "HEAD":
        raise _too_large(shown_url(url), most_bytes)
    body = bytearray()
    try:
        async for piece in response.content.iter_chunked(PIECE_BYTES):
            body += piece
            if len(body) > most_bytes:
                raise _too_large(shown_url(url), most_bytes)
    except FAILURES as error:
        raise translate(error, shown_url(url), seconds, sent=True) from None
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding in _PLAIN or not body:
        return bytes(body)
    if encoding not in _PACKED:
        raise AnswerInvalid(f"{shown_url(url)} packs its answer in a way nobody asked for.", sent=True)
    return _unpacked(bytes(body), shown_url(url), most_bytes)


def _too_large(shown: str, most_bytes: int) -> AnswerTooLarge:
    return AnswerTooLarge(f"The answer of {shown} has more than {most_bytes:,} bytes.", sent=True)


def _unpacked(body: bytes, shown: str, most_bytes: int) -> bytes:
    """Return what is in the packed body; unpacking stops at the limit instead of finding out how large it is."""
    most = min(most_bytes, max(RATIO_FROM_BYTES, len(body) * RATIO_MOST))
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        unpacked = unpacker.decompress(body, most + 1)
    except zlib.error:
        raise AnswerInvalid(f"The packed answer of {shown} cannot be unpacked.", sent=True) from None
    if len(unpacked) > most:
        raise AnswerTooLarge(f"The packed answer of {shown} unpacks to more than {most:,} bytes.", sent=True)
    if not unpacker.eof:
        raise AnswerTruncated(f"The packed answer of {shown} ended before it was whole.", sent=True)
    return unpacked
