"""A file on its way from its source: whole, over as many connections as that takes.

A connection that is lost in the middle is made again and the rest is asked for, where the source says what this very
file is known by: bytes of two files are never mixed. What has read so far does not notice. Anything else ends the try.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import structlog

from longtake.errors import (
    AnswerTimedOut,
    AnswerTruncated,
    ConnectFailed,
    ConnectionLost,
    HostUnresolved,
    ResultNotCopied,
    SourceGone,
)

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient, StreamedResponse

log = structlog.get_logger(__name__)

OK, PARTIAL = 200, 206
#: What servers say of a file that is not there, or whose signed address has ended.
GONE = frozenset((401, 403, 404, 410))
#: How often one try goes on after a lost connection. A source that breaks off after every few bytes is not worth more.
MOST_LOSSES = 20
#: A server that is being restarted gets a moment.
PAUSE_SECONDS = 0.5
_LOST = (AnswerTruncated, ConnectionLost, AnswerTimedOut, ConnectFailed, HostUnresolved)


class Download:
    """One file, read once from its beginning to its end."""

    def __init__(
        self, client: HttpClient, url: str, headers: Mapping[str, str], *, seconds: float, most_bytes: int
    ) -> None:
        self._client = client
        self._url = url
        self._headers = headers
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._known_by: str | None = None
        self._losses = 0
        #: How many bytes have come, and how many there are in all; None while nobody has said.
        self.done = 0
        self.size: int | None = None
        #: Whether it is the source that is waited for; else it is whoever takes the chunks.
        self.asking = True

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the file. Raises SourceGone, or what else went wrong: what came so far is not the file then."""
        while True:
            try:
                async with self._client.stream(
                    "GET", self._url, headers=self._asked(), seconds=self._seconds, most_bytes=self._most_bytes
                ) as answer:
                    self._accept(answer)
                    async for chunk in answer.chunks():
                        self.done += len(chunk)
                        self.asking = False
                        yield chunk
                        self.asking = True
                self._require_whole()
            except _LOST as error:
                self._losses += 1
                if self._known_by is None or self._losses > MOST_LOSSES:
                    raise
                log.info("a connection was lost, going on", action="mirror", code=error.code, bytes_done=self.done)
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                self.asking = False
                return

    def _asked(self) -> Mapping[str, str]:
        if self.done == 0 or self._known_by is None:
            return self._headers
        return {**self._headers, "Range": f"bytes={self.done}-", "If-Range": self._known_by}

    def _accept(self, answer: StreamedResponse) -> None:
        if answer.status in GONE:
            raise SourceGone(f"The address of the file answers {answer.status}.")
        if self.done > 0:
            self._accept_rest(answer)
        elif answer.status == OK:
            self.size, self._known_by = answer.length, known_by(answer)
        else:
            raise ResultNotCopied(f"The address of the file answers {answer.status}.")

    def _accept_rest(self, answer: StreamedResponse) -> None:
        if answer.status != PARTIAL:
            raise ResultNotCopied(f"The source answers {answer.status} where the rest of the file was asked for.")
        size = self.size or 0
        rest = f"bytes {self.done}-{size - 1}/{size}"
        if self._is_another(answer) or answer.headers.get("Content-Range", "").strip() != rest:
            raise ResultNotCopied("The source gives something else than the rest of the file that was begun.")

    def _is_another(self, answer: StreamedResponse) -> bool:
        known = self._known_by or ""
        return known.startswith('"') and answer.headers.get("ETag", known) != known

    def _require_whole(self) -> None:
        if self.size is None or self.done == self.size:
            return
        if self.done > self.size:
            raise ResultNotCopied(f"The source sent {self.done} bytes of a file that has {self.size}.")
        raise AnswerTruncated(f"The source sent {self.done} of {self.size} bytes.", sent=True)


def known_by(answer: StreamedResponse) -> str | None:
    """Return what tells this very file from any other at its address, to be sent as If-Range; None: nothing does.

    That is an ETag which is not weak, or a Last-Modified that was not in the very second of the answer. Of a file whose
    length was not told nobody could say what its rest is.
    """
    headers = answer.headers
    if answer.length is None or headers.get("Accept-Ranges", "").strip().lower() == "none":
        return None
    etag = headers.get("ETag", "").strip()
    if etag.startswith('"'):
        return etag
    modified = headers.get("Last-Modified", "")
    try:
        age = parsedate_to_datetime(headers.get("Date", "")) - parsedate_to_datetime(modified)
    except (TypeError, ValueError):
        return None
    return modified if age >= timedelta(seconds=1) else None
