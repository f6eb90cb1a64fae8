"""One copy: from an address to our storage, checked on its way, within its time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from longtake.assets.patience import seconds_for_try
from longtake.assets.store import note_progress
from longtake.errors import DatabaseUnavailable, MediaRefused, ResultNotCopied, SourceGone
from longtake.storage.keys import result_key
from longtake.storage.media import FIRST_BYTES, MediaType, media_type

if TYPE_CHECKING:
    from longtake.asset_registry import Asset
    from longtake.engine.jobs import Job
    from longtake.net import HttpClient, StreamedAnswer
    from longtake.storage import Storage, Stored

log = structlog.get_logger(__name__)

OK = 200
#: What servers say of a file that is not there, or whose signed address has ended.
GONE = frozenset((401, 403, 404, 410))


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

        The key has the job's lease token: a second run, after a rescue, writes another object, and the row will name
        the one that counts.
        """
        seconds = seconds_for_try(job.attempt)
        try:
            async with asyncio.timeout(seconds):
                return await self._copy(job, asset, url, headers, seconds)
        except TimeoutError:
            raise ResultNotCopied(f"The copy took longer than {seconds:g} s.") from None

    async def _copy(self, job: Job, asset: Asset, url: str, headers: Mapping[str, str], seconds: float) -> Copied:
        async with self._client.stream(
            "GET", url, headers=headers, seconds=seconds, most_bytes=self._most_bytes
        ) as answer:
            _require_file(answer)
            await _tell(job, asset.id, "downloading")
            chunks = answer.chunks()
            first = await _first_bytes(chunks)
            media = _require_media(first, asset.kind)
            stored = await self._storage.put_stream(
                result_key(asset.id, job.lease_token, media.extension),
                _all(first, chunks, job, asset.id),
                media.content_type,
                most_bytes=self._most_bytes,
                file_name=f"{asset.id}.{media.extension}",
            )
            return Copied(stored, media.content_type)


def _require_file(answer: StreamedAnswer) -> None:
    if answer.status in GONE:
        raise SourceGone(f"The address of the result answers {answer.status}.")
    if answer.status != OK:
        raise ResultNotCopied(f"The address of the result answers {answer.status}.")


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
        raise MediaRefused(f"The address of the result gives {what} instead of the {kind}.", hint="")
    return media


async def _all(first: bytes, chunks: AsyncIterator[bytes], job: Job, asset_id: str) -> AsyncIterator[bytes]:
    yield first
    async for chunk in chunks:
        yield chunk
    await _tell(job, asset_id, "uploading")


async def _tell(job: Job, asset_id: str, state: str) -> None:
    """Write how far it is. That it cannot be written now is no reason to stop; that the job is lost is."""
    try:
        await job.progress(note_progress, asset_id, state)
    except DatabaseUnavailable:
        log.info("progress could not be written", action="mirror", asset_id=asset_id, state=state)
