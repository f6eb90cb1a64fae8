"""The files of assets: links to them, and what is exchanged with providers.

Links are made for each response, short-lived, and valid for one file each.
"""

import asyncio
import base64
import hashlib
import hmac
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import urlencode, urlsplit

import structlog

from longtake.adapters.decoder.errors import MediaRefused
from longtake.adapters.providers.provider import Reference
from longtake.adapters.storage import Storage
from longtake.adapters.storage.errors import ObjectMissing, StorageUnavailable
from longtake.adapters.storage.keys import result_key
from longtake.adapters.storage.media_type import FIRST_BYTES, media_type
from longtake.clock import Clock
from longtake.services.assets.errors import AssetGone, LinkInvalid
from longtake.services.assets.tables import Asset, NewAsset

log = structlog.get_logger(__name__)

LINK_SECONDS = 300.0
#: Long enough for a provider whose queue is full.
PROVIDER_LINK_SECONDS = 3600.0
STORE_AGAIN_SECONDS = (0.5, 2.0, 5.0, 10.0)

#: The files of an asset: the file itself, its thumbnail, its moving preview. A link is valid for one of them.
Variant = Literal["content", "thumbnail", "preview"]


@dataclass(frozen=True, slots=True)
class Addresses:
    """The URLs of an asset's file and its pictures; None where there is no file."""

    url: str | None = None
    thumbnail_url: str | None = None
    preview_url: str | None = None


@dataclass(eq=False, slots=True)
class AssetLinks:
    """Makes links to our copy if there is one, else to the provider's URL while it works.

    A store that can sign makes the link itself. Files in a folder are served by our own server, under a link signed
    with ``secret``. A link gives access to that one file until it expires, and to nothing else.
    """

    storage: Storage
    secret: Callable[[], bytes]
    public_url: str
    clock: Clock
    needs_key: Callable[[str], bool] = lambda _url: False

    async def addresses(self, asset: Asset, seconds: float = LINK_SECONDS) -> Addresses:
        return Addresses(
            await self.url(asset, seconds),
            await self.thumbnail_url(asset, seconds),
            await self.preview_url(asset, seconds),
        )

    async def url(self, asset: Asset, seconds: float = LINK_SECONDS) -> str | None:
        if asset.key is not None:
            return await self._address(asset.id, "content", asset.key, seconds)
        return self.source_url(asset)

    async def thumbnail_url(self, asset: Asset, seconds: float = LINK_SECONDS) -> str | None:
        """Return a link to the thumbnail: ours, else the one that an application supplied."""
        if asset.thumbnail_key is not None:
            return await self._address(asset.id, "thumbnail", asset.thumbnail_key, seconds)
        if asset.has_picture:
            # Our server keeps it until the storage accepts it, so only our server can serve it.
            return self._own(asset.id, "thumbnail", seconds)
        return supplied_thumbnail(asset)

    async def preview_url(self, asset: Asset, seconds: float = LINK_SECONDS) -> str | None:
        if asset.preview_key is None:
            return None
        return await self._address(asset.id, "preview", asset.preview_key, seconds)

    def source_url(self, asset: Asset) -> str | None:
        """Return the provider's URL while it works. Only http and https URLs are passed on."""
        if asset.source_url is None or not _is_web_url(asset.source_url):
            return None
        if self.needs_key(asset.source_url):
            # Only we can open it; users wait for our copy.
            return None
        expires = asset.source_expires_at
        return asset.source_url if expires is None or expires > self.clock.now() else None

    def verify(self, asset_id: str, variant: Variant, expires: str, signature: str) -> None:
        """Raise LinkInvalid unless we made the link for this file of this asset, and it has not expired."""
        expected = self._sign(asset_id, variant, expires).encode()
        if not hmac.compare_digest(expected, signature.encode(errors="replace")):
            raise LinkInvalid("This link is not valid.")
        if int(expires) <= self.clock.now().timestamp():
            raise LinkInvalid("This link has expired.")

    async def _address(self, asset_id: str, variant: Variant, key: str, seconds: float) -> str:
        signed = await self.storage.signed_url(key, seconds)
        return self._own(asset_id, variant, seconds) if signed is None else signed

    def _own(self, asset_id: str, variant: Variant, seconds: float) -> str:
        expires = str(math.ceil(self.clock.now().timestamp() + seconds))
        query = urlencode({"expires": expires, "signature": self._sign(asset_id, variant, expires)})
        return f"{self.public_url.rstrip('/')}/v1/assets/{asset_id}/{variant}?{query}"

    def _sign(self, asset_id: str, variant: Variant, expires: str) -> str:
        message = f"asset\n{variant}\n{asset_id}\n{expires}".encode(errors="replace")
        digest = hmac.new(self.secret(), message, hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def supplied_thumbnail(asset: Asset) -> str | None:
    """Return the thumbnail URL that an application wrote into the row, if it is an http or https URL."""
    return asset.thumbnail_url if asset.thumbnail_url is not None and _is_web_url(asset.thumbnail_url) else None


def _is_web_url(url: str) -> bool:
    try:
        return urlsplit(url).scheme in {"http", "https"}
    except ValueError:
        return False


async def keep_bytes(storage: Storage, new: NewAsset, body: bytes, token: str) -> NewAsset:
    """Store a result that came as bytes, before any row names it; return the asset with its key.

    ``token`` is the lease token of the job that has the bytes. Raises MediaRefused for bytes that are not of this kind.
    """
    found = media_type(body[:FIRST_BYTES])
    if found is None or found.kind != new.kind:
        raise MediaRefused(f"The provider sent bytes that are not a {new.kind} in a supported format.")
    key = result_key(new.id, token, found.extension)
    stored = await storage.put(key, body, found.content_type, file_name=f"{new.id}.{found.extension}")
    return replace(new, key=key, content_type=found.content_type, size=stored.size, checksum=stored.checksum)


async def keep_paid_bytes(storage: Storage, new: NewAsset, body: bytes, token: str) -> NewAsset:
    """Store as ``keep_bytes`` does, with a few retries: the result was paid for, and would be again."""
    for pause in STORE_AGAIN_SECONDS:
        try:
            return await keep_bytes(storage, new, body, token)
        except StorageUnavailable as error:
            log.warning("storage unavailable for a result", action="wait", asset_id=new.id, code=error.code)
            await asyncio.sleep(pause)
    return await keep_bytes(storage, new, body, token)


async def reference_for_provider(
    storage: Storage, links: AssetLinks, asset: Asset, takes: Literal["url", "bytes"]
) -> Reference:
    """Return a reference image in the form the provider takes: a URL to fetch it from, or its bytes."""
    if asset.key is None or asset.content_type is None:
        raise AssetGone(f"The reference {asset.id} has no file.")
    if takes == "url":
        url = await links.url(asset, PROVIDER_LINK_SECONDS)
        return Reference(content_type=asset.content_type, url=url, body=None)
    try:
        body = await storage.get(asset.key, asset.size or 0)
    except ObjectMissing as error:
        raise AssetGone(f"The file of the reference {asset.id} is gone.") from error
    return Reference(content_type=asset.content_type, url=None, body=body)
