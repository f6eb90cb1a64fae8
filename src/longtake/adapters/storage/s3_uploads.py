"""Uploads to a bucket in parts: where the parts come from, and how unfinished uploads are found and aborted.

The store's client cannot list uploads; these requests are signed here.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import html
import os
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, urlsplit

import aiohttp
from yarl import URL

from longtake.adapters.storage.errors import ObjectTooLarge, StorageRefused, StorageUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from longtake.adapters.storage.s3 import S3Address

NOTHING = hashlib.sha256(b"").hexdigest()
SERVER_TROUBLE = 500
NOT_FOUND = 404
_UPLOAD = re.compile(r"<Upload>(.*?)</Upload>", re.DOTALL)


class UploadStopped(Exception):
    """The upload is no longer wanted. Makes a store abort it; callers never see it."""


class EqualParts:
    """Hands out parts of one size (the last may be smaller) and computes their SHA-256. Reads inside its block only.

    The chunks are read by one task from first to last: a generator with a time limit inside must not move between
    tasks. One part waits while the one before it is being sent.
    """

    def __init__(self, chunks: AsyncIterator[bytes], *, most_bytes: int, part_bytes: int) -> None:
        self._chunks = chunks
        self._most = most_bytes
        self._part_bytes = part_bytes
        self._ready: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
        self._reading = asyncio.create_task(self._read())
        self._hash = hashlib.sha256()
        self._hashed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hashed.set_result(None)
        self.size = 0
        #: The error that ended the source, as it was raised: a store may wrap it beyond recognition.
        self.error: BaseException | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Stop reading."""
        self._reading.cancel()
        await asyncio.wait({self._reading})

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of the parts handed out so far."""
        return self._hash.hexdigest()

    def stop(self) -> None:
        """Raise UploadStopped to the reader of the parts, even while the next chunk is awaited."""
        self._reading.cancel()

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the parts; raise the source's error at its place."""
        while (part := await self._ready.get()) is not None:
            yield part
        if self.error is not None:
            raise self.error

    async def _read(self) -> None:
        try:
            await self._read_parts()
        except asyncio.CancelledError:
            self.error = UploadStopped()
        except Exception as error:  # noqa: BLE001 - raised again to the reader of the parts
            self.error = error
        finally:
            if isinstance(self._chunks, AsyncGenerator):
                await self._chunks.aclose()
        if self.error is not None and not self._ready.empty():
            self._ready.get_nowait()
        await self._ready.put(None)

    async def _read_parts(self) -> None:
        pieces: list[bytes] = []
        held = 0
        async for chunk in self._chunks:
            self.size += len(chunk)
            if self.size > self._most:
                raise ObjectTooLarge(f"The file has more than {self._most:,} bytes.", limit=self._most)
            left = chunk
            while held + len(left) >= self._part_bytes:
                room = self._part_bytes - held
                await self._hand_out(b"".join([*pieces, left[:room]]))
                pieces, held, left = [], 0, left[room:]
            if left:
                pieces.append(left)
                held += len(left)
        if pieces:
            await self._hand_out(b"".join(pieces))
        await self._hashed

    async def _hand_out(self, part: bytes) -> None:
        await self._hashed
        # On a thread, while the next part arrives: hashing takes longer than a fast network.
        self._hashed = asyncio.get_running_loop().run_in_executor(None, self._hash.update, part)
        await self._ready.put(part)


@dataclass(frozen=True, slots=True)
class S3Credentials:
    """What requests are signed with; temporary credentials have a session token."""

    access_key_id: str
    secret_access_key: str
    session_token: str = ""


def credentials_from_environment() -> S3Credentials | None:
    """Return the credentials in AWS's own variables, or None."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    key_id, secret, token = (os.environ.get(name, "") for name in names)
    return S3Credentials(key_id, secret, token) if key_id and secret else None


class S3Uploads:
    """The unfinished uploads of one bucket. The operator chose its address: no guard against private ones is needed."""

    def __init__(self, address: S3Address, credentials: S3Credentials, seconds: float) -> None:
        self._bucket = address.bucket
        self._prefix = f"{address.prefix}/" if address.prefix else ""
        self._region = address.region
        self._credentials = credentials
        self._seconds = seconds
        base = address.endpoint or f"https://{address.bucket}.s3.{address.region}.amazonaws.com"
        self._base = base if address.virtual_hosted else f"{base}/{address.bucket}"

    async def remove(self, before: datetime) -> int:
        """Abort uploads that began before the moment; return how many. An upload of unknown age is left alone."""
        removed = 0
        timeout = aiohttp.ClientTimeout(total=self._seconds)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            page: dict[str, str] | None = {}
            while page is not None:
                query = {"uploads": "", "prefix": self._prefix, **page}
                text = await self._ask(session, "GET", "", query)
                for key, upload_id, begun in _uploads(text):
                    if key.startswith(self._prefix) and begun < before:
                        await self._ask(session, "DELETE", key, {"uploadId": upload_id})
                        removed += 1
                page = _next_page(text)
        return removed

    async def _ask(self, session: aiohttp.ClientSession, method: str, key: str, query: Mapping[str, str]) -> str:
        path = f"{urlsplit(self._base).path}/{key}"
        written = "&".join(f"{_encoded(name)}={_encoded(value)}" for name, value in sorted(query.items()))
        origin = self._base.removesuffix(urlsplit(self._base).path)
        url = URL(f"{origin}{quote(path, safe='/-_.~')}?{written}", encoded=True)
        headers = self._signed(method, urlsplit(origin).netloc, quote(path, safe="/-_.~"), written)
        try:
            async with session.request(method, url, headers=headers, allow_redirects=False) as answer:
                # An upload that is already gone counts as aborted.
                if answer.ok or (method == "DELETE" and answer.status == NOT_FOUND):
                    return await answer.text(errors="replace")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise StorageUnavailable(f"The store of the bucket {self._bucket} cannot be used now.") from error
        if answer.status >= SERVER_TROUBLE:
            raise StorageUnavailable(f"The store of the bucket {self._bucket} answers {answer.status}.")
        raise StorageRefused(f"The store does not list unfinished uploads of {self._bucket} (HTTP {answer.status}).")

    def _signed(self, method: str, host: str, path: str, query: str) -> dict[str, str]:
        """Return the headers of AWS's Signature Version 4."""
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        headers = {"host": host, "x-amz-content-sha256": NOTHING, "x-amz-date": moment}
        if self._credentials.session_token:
            headers["x-amz-security-token"] = self._credentials.session_token
        names = ";".join(sorted(headers))
        lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        request = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{NOTHING}"
        scope = f"{moment[:8]}/{self._region}/s3/aws4_request"
        digest = hashlib.sha256(request.encode()).hexdigest()
        key = f"AWS4{self._credentials.secret_access_key}".encode()
        for part in scope.split("/"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        to_sign = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{digest}"
        signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
        credential = f"Credential={self._credentials.access_key_id}/{scope}"
        authorization = f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signature}"
        return {**headers, "Authorization": authorization}


def _encoded(text: str) -> str:
    return quote(text, safe="-_.~")


def _uploads(text: str) -> Iterator[tuple[str, str, datetime]]:
    """Yield key, id and start of each upload. The format is fixed and flat and needs no XML parser."""
    for match in _UPLOAD.finditer(text):
        begun = _member(match[1], "Initiated")
        if begun:
            yield _member(match[1], "Key"), _member(match[1], "UploadId"), datetime.fromisoformat(begun)


def _next_page(text: str) -> dict[str, str] | None:
    if _member(text, "IsTruncated") != "true":
        return None
    page = {"key-marker": _member(text, "NextKeyMarker"), "upload-id-marker": _member(text, "NextUploadIdMarker")}
    # A store that says there is more without saying where must not be asked forever.
    return page if any(page.values()) else None


def _member(text: str, name: str) -> str:
    found = re.search(rf"<{name}>([^<]*)</{name}>", text)
    return html.unescape(found[1]) if found else ""
