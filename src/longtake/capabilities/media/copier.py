"""Copies a file from its source to our storage, within a time limit, checking its bytes on the way.

A lost connection is replaced by another that asks for the rest, if the source identifies the file's version: bytes of
two versions are never mixed. Any other error ends the try.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import structlog

from longtake.adapters.decoder.errors import MediaRefused
from longtake.adapters.net.errors import AnswerTimedOut, AnswerTruncated, ConnectFailed, ConnectionLost, HostUnresolved
from longtake.adapters.storage.errors import StorageUnavailable
from longtake.adapters.storage.keys import FIRST_BYTES, MediaType, media_type, result_key
from longtake.capabilities.media.mirror_retry import runs, seconds_for_try
from longtake.capabilities.media.mirror_store import note_progress, note_started
from longtake.db.errors import DatabaseUnavailable
from longtake.services.assets.errors import ResultNotCopied, SourceGone

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient, StreamedResponse
    from longtake.adapters.storage import Storage, Stored
    from longtake.engine.jobs import Job
    from longtake.services.assets import Asset

log = structlog.get_logger(__name__)

#: How long no progress is written after the database failed: each attempt takes seconds of the copy's time.
SILENT_SECONDS = 30.0
OK, PARTIAL = 200, 206
#: The statuses of a missing file, or of a signed address that has expired.
GONE = frozenset((401, 403, 404, 410))
#: How many lost connections one try survives; a source that fails more often is not worth it.
MOST_LOSSES = 20
#: Before the next connection: a server may be restarting.
PAUSE_SECONDS = 0.5
_LOST = (AnswerTruncated, ConnectionLost, AnswerTimedOut, ConnectFailed, HostUnresolved)


@dataclass(frozen=True, slots=True)
class Copy:
    """A stored object, and its content type by its own bytes."""

    stored: Stored
    content_type: str


class Copier:
    """Copies one file at a time for each job. Memory stays flat, whatever the file's size."""

    def __init__(self, storage: Storage, client: HttpClient, most_bytes: int) -> None:
        self._storage = storage
        self._client = client
        self._most_bytes = most_bytes

    async def copy(self, job: Job, asset: Asset, url: str, headers: Mapping[str, str]) -> Copy:
        """Copy the file. After an error, SourceGone among them, nothing is stored.

        When the time runs out, the error blames the side that was waited for: the source or our storage.

        The key contains the job's lease token: a second run, after a rescue, writes another object, and the row names
        the one that counts.
        """
        seconds = seconds_for_try(asset.role, runs(job))
        download = Download(self._client, url, headers, seconds=seconds, most_bytes=self._most_bytes)
        try:
            async with asyncio.timeout(seconds):
                return await self._copy(job, asset, download)
        except TimeoutError:
            if not download.waiting_for_source:
                raise StorageUnavailable(f"The storage did not accept the file within {seconds:g} s.") from None
            raise ResultNotCopied(f"The copy took longer than {seconds:g} s.") from None

    async def _copy(self, job: Job, asset: Asset, download: Download) -> Copy:
        progress = _Progress(job, asset, download)
        async with aclosing(download.chunks()) as chunks:
            first = await _first_bytes(chunks)
            media = _require_media(first, asset.kind)
            await progress.start()
            stored = await self._storage.put_stream(
                result_key(asset.id, job.lease_token, media.extension),
                _all_chunks(first, chunks, progress),
                media.content_type,
                most_bytes=self._most_bytes,
                file_name=f"{asset.id}.{media.extension}",
            )
            return Copy(stored, media.content_type)


class _Progress:
    """Writes how far a copy is. A database that is away does not stop the copy; a lost job does."""

    def __init__(self, job: Job, asset: Asset, download: Download) -> None:
        self._job = job
        self._asset = asset
        self._download = download
        self._silent_until = 0.0

    async def start(self) -> None:
        """Write that the file is arriving."""
        try:
            await self._job.progress(note_started, self._asset, self._download.size)
        except DatabaseUnavailable:
            self._pause()

    async def update(self, state: str, *, at_once: bool = False) -> None:
        """Write the state, at most once a second unless ``at_once``."""
        if self._silent_until and asyncio.get_running_loop().time() < self._silent_until:
            return
        done, size = self._download.done, self._download.size
        try:
            await self._job.progress(note_progress, self._asset, state, done, size, at_once=at_once)
        except DatabaseUnavailable:
            self._pause()

    def _pause(self) -> None:
        self._silent_until = asyncio.get_running_loop().time() + SILENT_SECONDS
        log.info("progress could not be written", action="mirror", asset_id=self._asset.id)


async def _first_bytes(chunks: AsyncIterator[bytes]) -> bytes:
    """Return at least as many bytes as tell the media type; fewer at the end of the file."""
    first = b""
    while len(first) < FIRST_BYTES and (chunk := await anext(chunks, b"")):
        first += chunk
    return first


def _require_media(first: bytes, kind: str) -> MediaType:
    media = media_type(first[:FIRST_BYTES])
    if media is None or media.kind != kind:
        what = "nothing" if not first else "something else" if media is None else f"a file of type {media.content_type}"
        raise MediaRefused(f"The address of the file gives {what} instead of the {kind}.", hint="")
    return media


async def _all_chunks(first: bytes, chunks: AsyncIterator[bytes], progress: _Progress) -> AsyncIterator[bytes]:
    yield first
    async for chunk in chunks:
        yield chunk
        await progress.update("downloading")
    # All bytes have arrived; the last of them are still to be stored.
    await progress.update("uploading", at_once=True)


class Download:
    """One file, read once from its beginning to its end, over as many connections as that takes."""

    def __init__(
        self, client: HttpClient, url: str, headers: Mapping[str, str], *, seconds: float, most_bytes: int
    ) -> None:
        self._client = client
        self._url = url
        self._headers = headers
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._validator: str | None = None
        self._losses = 0
        #: The number of bytes that have arrived, and of all; None while unknown.
        self.done = 0
        self.size: int | None = None
        #: Whether the source is waited for, not the reader of the chunks.
        self.waiting_for_source = True

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the file. After an error, SourceGone among them, the bytes so far are not the file."""
        while True:
            try:
                async with self._client.stream(
                    "GET",
                    self._url,
                    headers=self._request_headers(),
                    seconds=self._seconds,
                    most_bytes=self._most_bytes,
                ) as answer:
                    self._accept(answer)
                    async for chunk in answer.chunks():
                        self.done += len(chunk)
                        self.waiting_for_source = False
                        yield chunk
                        self.waiting_for_source = True
                self._require_whole()
            except _LOST as error:
                self._losses += 1
                if self._validator is None or self._losses > MOST_LOSSES:
                    raise
                log.info("a connection was lost, resuming", action="mirror", code=error.code, bytes_done=self.done)
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                self.waiting_for_source = False
                return

    def _request_headers(self) -> Mapping[str, str]:
        if self.done == 0 or self._validator is None:
            return self._headers
        return {**self._headers, "Range": f"bytes={self.done}-", "If-Range": self._validator}

    def _accept(self, answer: StreamedResponse) -> None:
        if answer.status in GONE:
            raise SourceGone(f"The address of the file answers {answer.status}.")
        if self.done > 0:
            self._accept_rest(answer)
        elif answer.status == OK:
            self.size, self._validator = answer.length, strong_validator(answer)
        else:
            raise ResultNotCopied(f"The address of the file answers {answer.status}.")

    def _accept_rest(self, answer: StreamedResponse) -> None:
        if answer.status != PARTIAL:
            raise ResultNotCopied(f"The source answers {answer.status} to a request for the rest of the file.")
        size = self.size or 0
        rest = f"bytes {self.done}-{size - 1}/{size}"
        if self._is_other_version(answer) or answer.headers.get("Content-Range", "").strip() != rest:
            raise ResultNotCopied("The source sent something other than the rest of the file.")

    def _is_other_version(self, answer: StreamedResponse) -> bool:
        validator = self._validator or ""
        return validator.startswith('"') and answer.headers.get("ETag", validator) != validator

    def _require_whole(self) -> None:
        if self.size is None or self.done == self.size:
            return
        if self.done > self.size:
            raise ResultNotCopied(f"The source sent {self.done} bytes of a file that has {self.size}.")
        raise AnswerTruncated(f"The source sent {self.done} of {self.size} bytes.", sent=True)


def strong_validator(answer: StreamedResponse) -> str | None:
    """Return what identifies this version of the file, to be sent as If-Range; None if nothing does.

    That is an ETag that is not weak, or a Last-Modified at least a second older than the answer. Without a length
    there is no validator: nothing would tell which bytes are the rest.
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
