"""Files exchanged with providers: results that arrive as bytes, and references in the form a provider takes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import structlog

from longtake.adapters.decoder.errors import MediaRefused
from longtake.adapters.providers.provider import Reference
from longtake.adapters.storage.errors import ObjectMissing, StorageUnavailable
from longtake.adapters.storage.keys import FIRST_BYTES, media_type, result_key
from longtake.services.assets.errors import AssetGone

if TYPE_CHECKING:
    from longtake.adapters.storage import Storage
    from longtake.services.assets.links import AssetLinks
    from longtake.services.assets.tables import Asset, NewAsset

log = structlog.get_logger(__name__)

#: Long enough for a provider whose queue is full.
PROVIDER_LINK_SECONDS = 3600.0
STORE_AGAIN_SECONDS = (0.5, 2.0, 5.0, 10.0)


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
