"""Addresses under which readers get an asset's file: made for each answer, short-lived, for one object each."""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from longtake.errors import LinkInvalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtake.asset_registry.assets import Asset
    from longtake.clock import Clock
    from longtake.storage import Storage

LINK_SECONDS = 300.0


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

    async def url(self, asset: Asset, seconds: float = LINK_SECONDS) -> str | None:
        """Return an address of the asset's file, or None when it cannot be had."""
        if asset.key is not None:
            signed = await self._storage.signed_url(asset.key, seconds)
            return self._own(asset.id, seconds) if signed is None else signed
        return self.source_url(asset)

    def source_url(self, asset: Asset) -> str | None:
        """Return the provider's address while it lives; nothing but http and https is ever handed on."""
        if asset.source_url is None or urlsplit(asset.source_url).scheme not in {"http", "https"}:
            return None
        if self._needs_key(asset.source_url):
            # Only we can open it; readers wait for our copy.
            return None
        expires = asset.source_expires_at
        return asset.source_url if expires is None or expires > self._clock.now() else None

    def verify(self, asset_id: str, expires: str, signature: str) -> None:
        """Raise LinkInvalid unless the link was made here, for this asset, and has not expired."""
        genuine = hmac.compare_digest(self._sign(asset_id, expires).encode(), signature.encode(errors="replace"))
        if not genuine:
            raise LinkInvalid("This link is not valid.")
        if int(expires) <= self._clock.now().timestamp():
            raise LinkInvalid("This link has expired.")

    def _own(self, asset_id: str, seconds: float) -> str:
        expires = str(math.ceil(self._clock.now().timestamp() + seconds))
        query = urlencode({"expires": expires, "signature": self._sign(asset_id, expires)})
        return f"{self._public_url}/v1/assets/{asset_id}/content?{query}"

    def _sign(self, asset_id: str, expires: str) -> str:
        message = f"asset\n{asset_id}\n{expires}".encode(errors="replace")
        digest = hmac.new(self._secret, message, hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
