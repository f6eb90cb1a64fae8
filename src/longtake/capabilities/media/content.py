"""Serves an asset's file, thumbnail and preview over HTTP, by ranges and with the type that we detected."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from fastapi import Response
from starlette.responses import RedirectResponse

from longtake.adapters.storage.keys import type_of_key
from longtake.capabilities.media.thumbnails import waiting_thumbnail
from longtake.errors import NotFound
from longtake.http.file_responses import ServedFile, send_file
from longtake.services.assets.errors import AssetGone
from longtake.services.assets.links import LINK_SECONDS, supplied_thumbnail

if TYPE_CHECKING:
    from starlette.requests import Request

    from longtake.adapters.storage import Storage
    from longtake.db import Database
    from longtake.services.assets import Asset, AssetLinks, Variant


class Contents:
    """Answers requests for files, thumbnails and previews. The caller has checked access before."""

    def __init__(self, database: Database, storage: Storage, links: AssetLinks) -> None:
        self._database = database
        self._storage = storage
        self._links = links

    async def respond(self, request: Request, asset: Asset, variant: Variant) -> Response:
        """Return the bytes, a part of them, or a redirect to them.

        Raises AssetGone for a file that is lost, NotFound for a picture that does not exist, or not yet.
        """
        key = {"content": asset.key, "thumbnail": asset.thumbnail_key, "preview": asset.preview_key}[variant]
        if key is not None:
            return await self._respond_object(request, asset, variant, key)
        if variant == "content":
            source = self._links.source_url(asset)
            if source is None:
                raise AssetGone(f"The asset {asset.id} has no copy, and its source has ended.")
            return _redirect(source)
        if variant == "thumbnail":
            waiting = await self._database.read(waiting_thumbnail, asset.id) if asset.has_picture else None
            if waiting is not None:
                return send_file(request, _from_memory(asset, waiting))
            own = supplied_thumbnail(asset)
            if own is not None:
                return _redirect(own)
        raise NotFound(f"The asset {asset.id} has no {variant}.", hint="It may follow later: see `thumbnail_state`.")

    async def _respond_object(self, request: Request, asset: Asset, variant: Variant, key: str) -> Response:
        # Checked before a redirect too: it must not lead to a missing object.
        facts = await self._storage.facts(key)
        if facts is None:
            raise AssetGone(f"The {_NAMES[variant]} of the asset {asset.id} is missing from the storage.")
        # The address is signed for GET only, so this server answers HEAD.
        signed = await self._storage.signed_url(key, LINK_SECONDS) if request.method != "HEAD" else None
        if signed is not None:
            return _redirect(signed)
        whole = variant == "content"
        served = ServedFile(
            facts.size,
            asset.content_type if whole else type_of_key(key),
            f'"{asset.checksum}"' if whole else facts.etag or f'"{key}"',
            f"{asset.id}.{key.rpartition('.')[2]}" if whole else f"{asset.id}-{variant}.{key.rpartition('.')[2]}",
            lambda start, end: self._storage.read(key, start, end),
        )
        return send_file(request, served)


_NAMES = {"content": "file", "thumbnail": "thumbnail", "preview": "preview"}


def _from_memory(asset: Asset, picture: bytes) -> ServedFile:
    async def read(start: int, end: int) -> AsyncIterator[bytes]:
        yield picture[start:end]

    etag = f'"{hashlib.sha256(picture).hexdigest()}"'
    return ServedFile(len(picture), "image/jpeg", etag, f"{asset.id}-thumbnail.jpg", read)


def _redirect(url: str) -> Response:
    return RedirectResponse(url, status_code=307, headers={"Referrer-Policy": "no-referrer"})
