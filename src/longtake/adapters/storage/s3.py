"""Objects in an S3-compatible store: AWS, Cloudflare R2, Alibaba OSS, MinIO, SeaweedFS and their like."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import obstore
import structlog
from obstore.store import S3Store

from longtake.adapters.storage.keys import check_key
from longtake.adapters.storage.s3_errors import translated
from longtake.adapters.storage.s3_uploads import S3Keys, S3Uploads, keys_of_environment
from longtake.adapters.storage.source import EqualParts, UploadStopped
from longtake.adapters.storage.storage import PART_BYTES, Facts, Storage, Stored
from longtake.errors import ObjectMissing, StorageUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
    from datetime import datetime

    from obstore import ObjectMeta

    from longtake.adapters.storage.s3_address import S3Address

log = structlog.get_logger(__name__)

#: Parts of one upload that are sent at once. Memory for one upload is a few parts, however large the object is.
PARTS_AT_ONCE = 2
READ_BYTES = 256 * 1024
#: One quick repeat hides a connection that had gone stale; the real retrier is the engine.
REPEATS = 1
#: How long an upload that was stopped gets to take its parts back.
FAREWELL_SECONDS = 1.5


class S3Storage(Storage):
    """A bucket, or a folder of it.

    No default checksums and no aws-chunked bodies are sent, and all parts but the last are equal: R2 and OSS refuse
    anything else. ``request_seconds`` is the limit for one request, also where a server takes the connection and
    says nothing.
    """

    def __init__(
        self,
        address: S3Address,
        *,
        access_key_id: str = "",
        secret_access_key: str = "",
        request_seconds: float = 60.0,
    ) -> None:
        self._bucket = address.bucket
        self._seconds = request_seconds
        config: dict[str, Any] = {
            "region": address.region,
            "virtual_hosted_style_request": address.virtual_hosted,
            "disable_bulk_delete": not address.bulk_delete,
        }
        if address.endpoint:
            config["endpoint"] = address.endpoint
        if access_key_id:
            config |= {"access_key_id": access_key_id, "secret_access_key": secret_access_key}
        self._store = S3Store(
            address.bucket,
            prefix=address.prefix,
            config=config,  # type: ignore[arg-type]
            client_options={
                "allow_http": address.plain_http,
                "timeout": timedelta(seconds=request_seconds),
                "connect_timeout": timedelta(seconds=min(request_seconds, 5.0)),
            },
            retry_config={"max_retries": REPEATS, "retry_timeout": timedelta(seconds=request_seconds)},
        )
        keys = S3Keys(access_key_id, secret_access_key) if access_key_id else keys_of_environment()
        self._uploads = None if keys is None else S3Uploads(address, keys, request_seconds)

    async def put(self, key: str, body: bytes, content_type: str, *, file_name: str | None = None) -> Stored:
        check_key(key)
        async with self._asking():
            await obstore.put_async(
                self._store, key, body, attributes=_attributes(content_type, file_name), use_multipart=False
            )
        return Stored(key, len(body), hashlib.sha256(body).hexdigest())

    async def put_stream(
        self,
        key: str,
        chunks: AsyncIterator[bytes],
        content_type: str,
        *,
        most_bytes: int,
        file_name: str | None = None,
    ) -> Stored:
        check_key(key)
        async with EqualParts(chunks, most_bytes=most_bytes, part_bytes=PART_BYTES) as source:
            parts = source.parts()
            first = await anext(parts, b"")
            if len(first) < PART_BYTES:
                # It is all there is: one request instead of three.
                await anext(parts, None)
                return await self.put(key, first, content_type, file_name=file_name)
            await self._put_parts(key, source, _chain(first, parts), _attributes(content_type, file_name))
            return Stored(key, source.size, source.checksum)

    async def _put_parts(
        self, key: str, source: EqualParts, parts: AsyncIterator[bytes], attributes: dict[str, str]
    ) -> None:
        """Send the parts. A request to the store is never dropped in the middle, which would leave parts behind.

        Being cancelled ends the source with an error instead, at which the store takes the parts back itself.
        """
        upload = obstore.put_async(
            self._store, key, parts, attributes=attributes, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
        )
        uploading = asyncio.ensure_future(upload)
        try:
            async with translated(self._bucket):
                await asyncio.shield(uploading)
        except asyncio.CancelledError:
            source.stop()
            # If it takes longer than that, what it comes to is of no interest to anybody.
            uploading.add_done_callback(_look_away)
            await asyncio.wait({uploading}, timeout=FAREWELL_SECONDS)
            if uploading.done() and not uploading.cancelled() and uploading.exception() is None:
                # It was too late to stop it. Nobody will hear of this object.
                await self.delete([key])
            raise
        except Exception:
            if source.error is not None and not isinstance(source.error, UploadStopped):
                raise source.error from None
            raise

    async def read(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        check_key(key)
        if end is not None and end <= start:
            return
        options: dict[str, Any] = {"range": {"offset": start} if end is None else (start, end)}
        whole = start == 0 and end is None
        async with translated(self._bucket):
            answer = await obstore.get_async(self._store, key, options=None if whole else options)  # type: ignore[arg-type]
            async for chunk in answer.stream(min_chunk_size=READ_BYTES):
                yield bytes(chunk)

    async def facts(self, key: str) -> Facts | None:
        check_key(key)
        try:
            async with self._asking():
                answer = await obstore.get_async(self._store, key, options={"head": True})
        except ObjectMissing:
            return None
        return _facts(answer.meta, answer.attributes)

    async def delete(self, keys: Iterable[str]) -> None:
        wanted = [check_key(key) for key in keys]
        if wanted:
            async with self._asking():
                await obstore.delete_async(self._store, wanted)

    async def list(self, prefix: str, after: str | None = None) -> AsyncGenerator[Facts, None]:
        check_key(prefix.rstrip("/"))
        async with translated(self._bucket):
            async for batch in obstore.list(self._store, prefix.rstrip("/"), offset=after):
                for meta in batch:
                    yield _facts(meta, {})

    async def remove_unfinished(self, before: datetime) -> int:
        """Abort uploads. Keys of the machine's own role are not known here: then the bucket's own rule has to do it."""
        if self._uploads is None:
            log.info("unfinished uploads are left to the bucket's lifecycle rule", action="storage")
            return 0
        return await self._uploads.remove(before)

    async def signed_url(self, key: str, seconds: float) -> str | None:
        """Return an address that works without our keys, for this object only."""
        check_key(key)
        async with self._asking():
            return await obstore.sign_async(self._store, "GET", key, timedelta(seconds=seconds))

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[None]:
        """Ask for something small: with a limit over all repeats, and in our words when it fails."""
        try:
            async with translated(self._bucket), asyncio.timeout(2 * self._seconds):
                yield
        except TimeoutError as error:
            raise StorageUnavailable(f"The store of the bucket {self._bucket} does not answer.") from error


def _look_away(upload: asyncio.Future[Any]) -> None:
    if not upload.cancelled():
        upload.exception()


async def _chain(first: bytes, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for part in parts:
        yield part


def _attributes(content_type: str, file_name: str | None) -> dict[str, str]:
    attributes = {"Content-Type": content_type}
    if file_name is not None:
        attributes["Content-Disposition"] = f'inline; filename="{check_key(file_name)}"'
    return attributes


def _facts(meta: ObjectMeta, attributes: Mapping[str, str]) -> Facts:
    content_type = attributes.get("Content-Type")
    return Facts(meta["path"], meta["size"], meta["e_tag"], meta["last_modified"], content_type)
