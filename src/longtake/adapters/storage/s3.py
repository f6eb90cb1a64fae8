"""Objects in an S3-compatible store: AWS, Cloudflare R2, Alibaba OSS, MinIO, SeaweedFS and their like.

Its address is `s3://bucket/folder?region=…&endpoint=…`, with the defaults that each maker's store needs.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

import obstore
import structlog
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from longtake.adapters.storage.errors import (
    ObjectMissing,
    StorageError,
    StorageFull,
    StorageRefused,
    StorageUnavailable,
)
from longtake.adapters.storage.keys import check_key
from longtake.adapters.storage.s3_uploads import (
    EqualParts,
    S3Credentials,
    S3Uploads,
    UploadStopped,
    credentials_from_environment,
)
from longtake.adapters.storage.storage import PART_BYTES, ObjectFacts, Storage, Stored, retrieve_error
from longtake.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
    from datetime import datetime

    from obstore import ObjectMeta

log = structlog.get_logger(__name__)

#: Parts of one upload that are sent at once; memory for one upload stays at a few parts.
PARTS_AT_ONCE = 2
READ_BYTES = 256 * 1024
#: One quick repeat hides a stale connection; the engine does the real retries.
REPEATS = 1
#: How long a stopped upload has to remove its parts.
CLEANUP_SECONDS = 1.5

_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_HINT = "Check LONGTAKE_STORAGE_URL, LONGTAKE_S3_ACCESS_KEY_ID and LONGTAKE_S3_SECRET_ACCESS_KEY."
#: Worth another try: trouble of the server, or with our clock.
_TRANSIENT = frozenset((408, 425, 429, 500, 502, 503, 504))
_NO_ROOM = frozenset((507,))
OPTIONS = ("region", "endpoint", "style", "plain_http")
EXAMPLE = "Example: s3://my-bucket?region=auto&endpoint=https://ACCOUNT.r2.cloudflarestorage.com"
R2 = ".r2.cloudflarestorage.com"
OSS = ".aliyuncs.com"


@dataclass(frozen=True, slots=True)
class S3Address:
    """Where a bucket is, and how to send requests to it."""

    bucket: str
    prefix: str | None
    region: str
    #: None means AWS's endpoint of the region. With the virtual style the bucket is part of the host.
    endpoint: str | None
    virtual_hosted: bool
    plain_http: bool
    #: Alibaba's OSS cannot delete many objects in one request.
    bulk_delete: bool


def parse_s3_url(url: str) -> S3Address:
    """Return the parsed address. Raises SettingsError that says what is wrong with it."""
    parts = urlsplit(url)
    options = _options(parts.query)
    endpoint = _split(options["endpoint"]) if "endpoint" in options else None
    host = (endpoint.hostname or "") if endpoint else ""
    style = options.get("style", "path" if endpoint and not host.endswith(OSS) else "virtual")
    if style not in {"path", "virtual"}:
        raise _wrong("its style must be path or virtual")
    plain = endpoint is not None and endpoint.scheme == "http"
    if plain and options.get("plain_http") != "yes" and not _is_loopback(host):
        raise _wrong("its endpoint must be https; plain_http=yes allows http on a trusted network")
    return S3Address(
        bucket=parts.netloc,
        prefix=parts.path.strip("/") or None,
        region=options.get("region", "auto" if host.endswith(R2) else "us-east-1"),
        endpoint=_endpoint(endpoint, parts.netloc, virtual=style == "virtual") if endpoint else None,
        virtual_hosted=style == "virtual",
        plain_http=plain,
        bulk_delete=not host.endswith(OSS),
    )


def _options(query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        # The option is not repeated: the address may contain a secret key.
        raise _wrong(f"its options may only be {', '.join(OPTIONS)}")
    return options


def _split(endpoint: str) -> SplitResult:
    try:
        parts = urlsplit(endpoint)
        _port = parts.port
    except ValueError:
        raise _wrong("its endpoint is not a valid URL") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise _wrong("its endpoint must be http(s)://host[:port], without a user, query or fragment")
    return parts


def _endpoint(endpoint: SplitResult, bucket: str, *, virtual: bool) -> str:
    host = endpoint.netloc
    if virtual and not host.startswith(f"{bucket}."):
        host = f"{bucket}.{host}"
    return f"{endpoint.scheme}://{host}{endpoint.path.rstrip('/')}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _wrong(reason: str) -> SettingsError:
    return SettingsError(f"LONGTAKE_STORAGE_URL cannot be used: {reason}. {EXAMPLE}")


class S3Storage(Storage):
    """A bucket, or a folder of it.

    It sends no default checksums and no aws-chunked bodies, and all parts but the last have the same size: R2 and OSS
    refuse anything else. ``request_seconds`` limits one request, also when a server accepts the connection and then
    stays silent.
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
        keys = S3Credentials(access_key_id, secret_access_key) if access_key_id else credentials_from_environment()
        self._uploads = None if keys is None else S3Uploads(address, keys, request_seconds)

    async def put(self, key: str, body: bytes, content_type: str, *, file_name: str | None = None) -> Stored:
        check_key(key)
        async with self._request():
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
                # The whole object: one request instead of three.
                await anext(parts, None)
                return await self.put(key, first, content_type, file_name=file_name)
            await self._put_parts(key, source, _chain(first, parts), _attributes(content_type, file_name))
            return Stored(key, source.size, source.checksum)

    async def _put_parts(
        self, key: str, source: EqualParts, parts: AsyncIterator[bytes], attributes: dict[str, str]
    ) -> None:
        """Send the parts. A request is never dropped in the middle: that would leave parts in the store.

        Instead, being cancelled ends the source with an error, and the client then removes the parts itself.
        """
        upload = obstore.put_async(
            self._store, key, parts, attributes=attributes, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
        )
        uploading = asyncio.ensure_future(upload)
        try:
            async with _translated(self._bucket):
                await asyncio.shield(uploading)
        except asyncio.CancelledError:
            source.stop()
            # The outcome of a slower cleanup is not needed.
            uploading.add_done_callback(retrieve_error)
            await asyncio.wait({uploading}, timeout=CLEANUP_SECONDS)
            if uploading.done() and not uploading.cancelled() and uploading.exception() is None:
                # Too late to stop it: the caller will never name this object.
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
        async with _translated(self._bucket):
            answer = await obstore.get_async(self._store, key, options=None if whole else options)  # type: ignore[arg-type]
            async for chunk in answer.stream(min_chunk_size=READ_BYTES):
                yield bytes(chunk)

    async def facts(self, key: str) -> ObjectFacts | None:
        check_key(key)
        try:
            async with self._request():
                answer = await obstore.get_async(self._store, key, options={"head": True})
        except ObjectMissing:
            return None
        return _facts(answer.meta, answer.attributes)

    async def delete(self, keys: Iterable[str]) -> None:
        wanted = [check_key(key) for key in keys]
        if wanted:
            async with self._request():
                await obstore.delete_async(self._store, wanted)

    async def list(self, prefix: str, after: str | None = None) -> AsyncGenerator[ObjectFacts, None]:
        check_key(prefix.rstrip("/"))
        async with _translated(self._bucket):
            async for batch in obstore.list(self._store, prefix.rstrip("/"), offset=after):
                for meta in batch:
                    yield _facts(meta, {})

    async def remove_unfinished(self, before: datetime) -> int:
        """Abort uploads. With the credentials of the machine's role, which are unknown here, leave it to the bucket."""
        if self._uploads is None:
            log.info("unfinished uploads are left to the bucket's lifecycle rule", action="storage")
            return 0
        return await self._uploads.remove(before)

    async def signed_url(self, key: str, seconds: float) -> str | None:
        """Return an address of this object alone that works without our keys."""
        check_key(key)
        async with self._request():
            return await obstore.sign_async(self._store, "GET", key, timedelta(seconds=seconds))

    @asynccontextmanager
    async def _request(self) -> AsyncIterator[None]:
        """Limit a small request with its repeats, and translate its errors."""
        try:
            async with _translated(self._bucket), asyncio.timeout(2 * self._seconds):
                yield
        except TimeoutError as error:
            raise StorageUnavailable(f"The store of the bucket {self._bucket} does not answer.") from error


async def _chain(first: bytes, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for part in parts:
        yield part


def _attributes(content_type: str, file_name: str | None) -> dict[str, str]:
    attributes = {"Content-Type": content_type}
    if file_name is not None:
        attributes["Content-Disposition"] = f'inline; filename="{check_key(file_name)}"'
    return attributes


def _facts(meta: ObjectMeta, attributes: Mapping[str, str]) -> ObjectFacts:
    content_type = attributes.get("Content-Type")
    return ObjectFacts(meta["path"], meta["size"], meta["e_tag"], meta["last_modified"], content_type)


@asynccontextmanager
async def _translated(bucket: str) -> AsyncIterator[None]:
    """Raise the client's errors as ours; others pass unchanged."""
    try:
        yield
    except (BaseError, FileNotFoundError) as error:
        raise _translate(bucket, error) from None


def _translate(bucket: str, error: BaseException) -> StorageError:
    """Return our error for the client's. Its text repeats addresses and whole answers, and stays inside."""
    text = str(error)
    code = found[1] if (found := _CODE.search(text)) else None
    status = int(found[1]) if (found := _STATUS.search(text)) else None
    if code == "NoSuchBucket":
        return StorageRefused(f"There is no bucket {bucket}.", hint=_HINT)
    if isinstance(error, FileNotFoundError):
        return ObjectMissing("There is no object under this key.")
    detail = f" ({code})" if code else f" (HTTP {status})" if status else ""
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return StorageRefused(f"The store denies access to the bucket {bucket}{detail}.", hint=_HINT)
    if status in _NO_ROOM:
        return StorageFull(f"The store of the bucket {bucket} has no room{detail}.")
    if status is None or status in _TRANSIENT:
        return StorageUnavailable(f"The store of the bucket {bucket} cannot be used now{detail or ': no answer'}.")
    return StorageRefused(f"The store of the bucket {bucket} refuses the request{detail}.", hint=_HINT)
