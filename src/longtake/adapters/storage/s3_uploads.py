"""Lists and aborts unfinished multipart uploads. The store's client cannot list them; its requests are signed here."""

from __future__ import annotations

import hashlib
import hmac
import html
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import aiohttp
from yarl import URL

from longtake.adapters.storage.errors import StorageRefused, StorageUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from longtake.adapters.storage.s3_address import S3Address

NOTHING = hashlib.sha256(b"").hexdigest()
SERVER_TROUBLE = 500
NOT_FOUND = 404
_UPLOAD = re.compile(r"<Upload>(.*?)</Upload>", re.DOTALL)


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
