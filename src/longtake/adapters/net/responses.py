"""Responses, whole in memory if they are small, in pieces if they are media; and the errors for failed requests."""

from __future__ import annotations

import asyncio
import os
import re
import zlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson

from longtake.adapters.net.errors import (
    AnswerInvalid,
    AnswerTimedOut,
    AnswerTooLarge,
    AnswerTruncated,
    ConnectFailed,
    ConnectionLost,
    HostUnresolved,
    NetError,
)
from longtake.adapters.net.guard import shown_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from aiohttp import ClientResponse, StreamReader

#: What aiohttp raises for failed requests. Any other exception is a bug and stays as it is.
FAILURES = (aiohttp.ClientError, TimeoutError, OSError)
#: About what a fast connection delivers at once. Smaller pieces cost more processor time for each copy.
PIECE_BYTES = 256 * 1024
#: How much a compressed body may grow when it is decompressed, unless it stays below the second figure.
RATIO_MOST = 100
RATIO_FROM_BYTES = 64 * 1024
_PLAIN = ("", "identity")
_PACKED = ("gzip", "x-gzip", "deflate")
#: The longest wait, in seconds, that a server can ask for.
LONGEST_RETRY_AFTER = 3600.0
_NUMBER = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?")


def translate(error: BaseException, shown: str, seconds: float, *, sent: bool) -> NetError:
    """Return our error for one of aiohttp's. Its own text is not used because it repeats whole URLs."""
    match error:
        case NetError():
            error.sent = error.sent or sent
            return error
        case aiohttp.ClientConnectorDNSError():
            return HostUnresolved(f"The name of {shown} cannot be resolved to an address.")
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            return ConnectFailed(f"{shown} has no valid TLS certificate.")
        case TimeoutError() if not sent:
            return ConnectFailed(f"No connection to {shown} within {seconds:g} s.")
        case TimeoutError():
            return AnswerTimedOut(f"{shown} did not answer completely within {seconds:g} s.", sent=True)
        case aiohttp.ClientConnectorError():
            return ConnectFailed(f"No connection to {shown}: {_reason(error.os_error)}.")
        case aiohttp.ClientPayloadError():
            return AnswerTruncated(f"The answer of {shown} ended too early.", sent=True)
        case aiohttp.ClientResponseError():
            return AnswerInvalid(f"{shown} answered something that is not HTTP.", sent=True)
        case _ if not sent:
            return ConnectFailed(f"No connection to {shown}.")
        case _:
            return ConnectionLost(f"The connection to {shown} ended before the answer.", sent=True)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno and error.errno > 0 else "it was refused or cut"


@dataclass(frozen=True, slots=True)
class Response:
    """A whole response. Header names are case-insensitive."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    url: str = field(default="", repr=False)

    def json(self) -> Any:
        """Return the body as JSON data, or raise AnswerInvalid."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            raise AnswerInvalid(
                f"{shown_url(self.url)} answered {self.status} with a body that is not JSON.", sent=True
            ) from None


class StreamedResponse:
    """A response whose body is read once, in pieces, and checked for completeness at its end."""

    def __init__(self, response: ClientResponse, url: str, *, most_bytes: int, seconds: float, stall: float) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        #: The URL after all redirects.
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
            raise AnswerInvalid(f"{shown} compresses its answer although the request forbids it.", sent=True)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body. After an error the pieces so far are not the whole file."""
        received, failure, content = 0, None, self._response.content
        # At the end it reads no more: a caller that took long over the last piece would get a timeout of the server.
        while failure is None and not content.at_eof():
            try:
                async with asyncio.timeout(self._stall):
                    piece = await content.readany()
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
    """Return the bytes that arrived before a failure and were not read, so that they need not be fetched again."""
    # The reader withholds them while its exception is set.
    content.set_exception(None)  # type: ignore[arg-type]
    try:
        return content.read_nowait()
    except FAILURES:
        return b""


def _length(response: ClientResponse) -> int | None:
    """Return the announced length, if it is the length of the body."""
    return response.content_length if "Transfer-Encoding" not in response.headers else None


async def read_whole(response: ClientResponse, url: str, most_bytes: int, seconds: float) -> bytes:
    """Return the body, decompressed, of at most `most_bytes`."""
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
        raise AnswerInvalid(f"{shown_url(url)} compresses its answer with an unsupported encoding.", sent=True)
    return _unpacked(bytes(body), shown_url(url), most_bytes)


def _too_large(shown: str, most_bytes: int) -> AnswerTooLarge:
    return AnswerTooLarge(f"The answer of {shown} has more than {most_bytes:,} bytes.", sent=True)


def _unpacked(body: bytes, shown: str, most_bytes: int) -> bytes:
    """Return the decompressed body. Decompression stops at the limit, however large the rest is."""
    most = min(most_bytes, max(RATIO_FROM_BYTES, len(body) * RATIO_MOST))
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        unpacked = unpacker.decompress(body, most + 1)
    except zlib.error:
        raise AnswerInvalid(f"The compressed answer of {shown} is damaged.", sent=True) from None
    if len(unpacked) > most:
        raise AnswerTooLarge(f"The compressed answer of {shown} decompresses to more than {most:,} bytes.", sent=True)
    if not unpacker.eof:
        raise AnswerTruncated(f"The compressed answer of {shown} ended too early.", sent=True)
    return unpacked


def retry_after_seconds(value: str | None, now: datetime) -> float | None:
    """Return the seconds of a Retry-After header, a number or a date; None if it is past or invalid."""
    text = (value or "").strip()
    if _NUMBER.fullmatch(text):
        return min(float(text), LONGEST_RETRY_AFTER)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = (moment - now).total_seconds()
    return min(seconds, LONGEST_RETRY_AFTER) if seconds > 0 else None
