"""Addresses under which readers get an asset's file: made for each answer, short-lived, for one object each."""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlencode, urlsplit

from longtake.errors import LinkInvalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtake.adapters.storage import Storage
    from longtake.clock import Clock
    from longtake.services.assets.assets import Asset

LINK_SECONDS = 300.0

#: What of an asset can be had: its file, its thumbnail, its moving preview. A link is good for one of them.
Variant = Literal["content", "thumbnail", "preview"]


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where an asset's file and its pictures are now; None where there is none."""

    url: str | None = None
    thumbnail_url: str | None = None
    preview_url: str | None = None


class AssetLinks:
    """Our copy if there is one, else the provider's address while it lives.

    A store that can sign gives the address itself; files in a folder are served by our own server, by a link that is
    signed with ``secret``. Whoever has a link can read that one file until it expires, and nothing else.
    """

    def __init__(
        self,
        storage: Storage,
        secret: bytes,
        public_url: str,
        clock: Clock,
        needs_key: Callable[[str], bool] = lambda _url: False,
    ) -> None:
        self._storage = storage
        self._secret = secret
        self._public_url = public_url.rstrip("/")
        self._clock = clock
        self._needs_key = needs_key

    async def addresses(self, asset: Asset, seconds: float = LINK_SECONDS) -> Addresses:
        """Return all addresses of an asset that an answer shows."""
        return Addresses(
            await self.url(asset, seconds),
            await self.thumbnail_url(asset, seconds),
            await self.preview_url(asset, seconds),
        )

    async def url(self, asset: Asset, seconds: float = LINK_SECONDS) -> str | None:
        """Return an address of the asset's file, or None when it cannot be had."""
        if asset.key is not None:
            return await self._address(asset.id, "content", asset.key, seconds)
        return self.source_url(asset)

    async def thumbnail_url(self, asset: Asset, seconds: float = LINK_SECONDS) -> str | None:
        """Return an address of the thumbnail: ours, else the one that an application brought itself."""
        if asset.thumbnail_key is not None:
            return await self._address(asset.id, "thumbnail", asset.thumbnail_key, seconds)
        if asset.has_picture:
            # It waits with us until the storage takes it: nobody else could serve it.
            return self._own(asset.id, "thumbnail", seconds)
        return brought_thumbnail(asset)

    async def preview_url(self, asset: Asset, seconds: float = LINK_SECONDS) -> str | None:
        """Return an address of the moving preview."""
        if asset.preview_key is None:
            return None
        return await self._address(asset.id, "preview", asset.preview_key, seconds)

    def source_url(self, asset: Asset) -> str | None:
        """Return the provider's address while it lives; nothing but http and https is ever handed on."""
        if asset.source_url is None or not _of_the_web(asset.source_url):
            return None
        if self._needs_key(asset.source_url):
            # Only we can open it; readers wait for our copy.
            return None
        expires = asset.source_expires_at
        return asset.source_url if expires is None or expires > self._clock.now() else None

    def verify(self, asset_id: str, variant: Variant, expires: str, signature: str) -> None:
        """Raise LinkInvalid unless the link was made here, for this of this asset, and has not expired."""
        wanted = self._sign(asset_id, variant, expires).encode()
        if not hmac.compare_digest(wanted, signature.encode(errors="replace")):
            raise LinkInvalid("This link is not valid.")
        if int(expires) <= self._clock.now().timestamp():
            raise LinkInvalid("This link has expired.")

    async def _address(self, asset_id: str, variant: Variant, key: str, seconds: float) -> str:
        signed = await self._storage.signed_url(key, seconds)
        return self._own(asset_id, variant, seconds) if signed is None else signed

    def _own(self, asset_id: str, variant: Variant, seconds: float) -> str:
        expires = str(math.ceil(self._clock.now().timestamp() + seconds))
        query = urlencode({"expires": expires, "signature": self._sign(asset_id, variant, expires)})
        return f"{self._public_url}/v1/assets/{asset_id}/{variant}?{query}"

    def _sign(self, asset_id: str, variant: Variant, expires: str) -> str:
        message = f"asset\n{variant}\n{asset_id}\n{expires}".encode(errors="replace")
        digest = hmac.new(self._secret, message, hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def brought_thumbnail(asset: Asset) -> str | None:
    """Return the address of a thumbnail that an application wrote into the row, if browsers may be sent there."""
    return asset.thumbnail_url if asset.thumbnail_url is not None and _of_the_web(asset.thumbnail_url) else None


def _of_the_web(url: str) -> bool:
    try:
        return urlsplit(url).scheme in {"http", "https"}
    except ValueError:
        return False
