"""One copy: from an address to our storage, checked on its way, within its time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from longtake.adapters.storage.keys import result_key
from longtake.adapters.storage.media_type import FIRST_BYTES, MediaType, media_type
from longtake.capabilities.media.download import Download
from longtake.capabilities.media.mirror_retry import seconds_for_try
from longtake.capabilities.media.mirror_store import note_begun, note_progress
from longtake.errors import DatabaseUnavailable, MediaRefused, ResultNotCopied, StorageUnavailable

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient
    from longtake.adapters.storage import Storage, Stored
    from longtake.engine.jobs import Job
    from longtake.services.assets import Asset


log = structlog.get_logger(__name__)

#: For how long nothing is told after the database could not be written to: asking it takes seconds of a copy's time.
SILENT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Copied:
    """An object of ours, and what it is by its own bytes."""

    stored: Stored
    content_type: str


class Copier:
    """Copies one file at a time for each job; memory stays flat however large it is."""

    def __init__(self, storage: Storage, client: HttpClient, most_bytes: int) -> None:
        self._storage = storage
        self._client = client
        self._most_bytes = most_bytes

    async def copy(self, job: Job, asset: Asset, url: str, headers: Mapping[str, str]) -> Copied:
        """Copy the file. Raises SourceGone, or what else went wrong; then nothing is stored.

        Where the time runs out, whoever was waited for has failed: the source, or our own storage.

        The key has the job's lease token: a second run, after a rescue, writes another object, and the row will name
        the one that counts.
        """
        seconds = seconds_for_try(asset.role, job.attempt)
        download = Download(self._client, url, headers, seconds=seconds, most_bytes=self._most_bytes)
        try:
            async with asyncio.timeout(seconds):
                return await self._copy(job, asset, download)
        except TimeoutError:
            if not download.asking:
                raise StorageUnavailable(f"The storage has not taken the file within {seconds:g} s.") from None
            raise ResultNotCopied(f"The copy took longer than {seconds:g} s.") from None

    async def _copy(self, job: Job, asset: Asset, download: Download) -> Copied:
        telling = _Telling(job, asset, download)
        async with aclosing(download.chunks()) as chunks:
            first = await _first_bytes(chunks)
            media = _require_media(first, asset.kind)
            await telling.begin()
            stored = await self._storage.put_stream(
                result_key(asset.id, job.lease_token, media.extension),
                _all(first, chunks, telling),
                media.content_type,
                most_bytes=self._most_bytes,
                file_name=f"{asset.id}.{media.extension}",
            )
            return Copied(stored, media.content_type)


class _Telling:
    """Writes how far a copy is. That it cannot be written now is no reason to stop; that the job is lost is."""

    def __init__(self, job: Job, asset: Asset, download: Download) -> None:
        self._job = job
        self._asset = asset
        self._download = download
        self._silent_until = 0.0

    async def begin(self) -> None:
        """Tell that the file is there and comes."""
        try:
            await self._job.progress(note_begun, self._asset, self._download.size)
        except DatabaseUnavailable:
            self._be_silent()

    async def go_on(self, state: str, *, at_once: bool = False) -> None:
        """Tell where it stands, if the last word was not just now, or if this one must be heard."""
        if self._silent_until and asyncio.get_running_loop().time() < self._silent_until:
            return
        done, size = self._download.done, self._download.size
        try:
            await self._job.progress(note_progress, self._asset, state, done, size, at_once=at_once)
        except DatabaseUnavailable:
            self._be_silent()

    def _be_silent(self) -> None:
        self._silent_until = asyncio.get_running_loop().time() + SILENT_SECONDS
        log.info("progress could not be written", action="mirror", asset_id=self._asset.id)


async def _first_bytes(chunks: AsyncIterator[bytes]) -> bytes:
    """Read until there is enough to tell what it is; what was read is handed on."""
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


async def _all(first: bytes, chunks: AsyncIterator[bytes], telling: _Telling) -> AsyncIterator[bytes]:
    yield first
    async for chunk in chunks:
        yield chunk
        await telling.go_on("downloading")
    # All is here; what is left is to bring the last of it to the storage.
    await telling.go_on("uploading", at_once=True)
