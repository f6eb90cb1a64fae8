"""An asset's file and pictures over HTTP: by ranges, with a type that we know to be true, so that nobody guesses."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from fastapi import Response
from starlette.responses import RedirectResponse

from longtake.adapters.storage.media import type_of_key
from longtake.capabilities.media.thumbnail_store import waiting_picture
from longtake.errors import AssetGone, NotFound
from longtake.http.file_responses import ServedFile, send_file
from longtake.services.assets.links import LINK_SECONDS, supplied_thumbnail

if TYPE_CHECKING:
    from starlette.requests import Request

    from longtake.adapters.storage import Storage
    from longtake.db import Database
    from longtake.services.assets import Asset, AssetLinks, Variant


class Contents:
    """Answers requests for files, thumbnails and previews. Whether the caller may see the asset was asked before."""

    def __init__(self, database: Database, storage: Storage, links: AssetLinks) -> None:
        self._database = database
        self._storage = storage
        self._links = links

    async def respond(self, request: Request, asset: Asset, variant: Variant) -> Response:
        """Answer with the bytes, a part of them, or where they are.

        Raises AssetGone when they cannot be had any more, NotFound for a picture that there is not, or not yet.
        """
        key = {"content": asset.key, "thumbnail": asset.thumbnail_key, "preview": asset.preview_key}[variant]
        if key is not None:
            return await self._object(request, asset, variant, key)
        if variant == "content":
            source = self._links.source_url(asset)
            if source is None:
                raise AssetGone(f"The file of the asset {asset.id} was not kept, and its source has ended.")
            return _elsewhere(source)
        if variant == "thumbnail":
            waiting = await self._database.read(waiting_picture, asset.id) if asset.has_picture else None
            if waiting is not None:
                return send_file(request, _of_bytes(asset, waiting))
            brought = supplied_thumbnail(asset)
            if brought is not None:
                return _elsewhere(brought)
        raise NotFound(f"The asset {asset.id} has no {variant}.", hint="It may come: `thumbnail_state` says so.")

    async def _object(self, request: Request, asset: Asset, variant: Variant, key: str) -> Response:
        # Asked also where somebody else will serve it: an address of nothing helps nobody.
        facts = await self._storage.facts(key)
        if facts is None:
            raise AssetGone(f"The {_NAMES[variant]} of the asset {asset.id} is gone from the storage.")
        # An address is signed for reading; who asks for headers only gets them here.
        signed = await self._storage.signed_url(key, LINK_SECONDS) if request.method != "HEAD" else None
        if signed is not None:
            return _elsewhere(signed)
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


def _of_bytes(asset: Asset, picture: bytes) -> ServedFile:
    async def read(start: int, end: int) -> AsyncIterator[bytes]:
        yield picture[start:end]

    etag = f'"{hashlib.sha256(picture).hexdigest()}"'
    return ServedFile(len(picture), "image/jpeg", etag, f"{asset.id}-thumbnail.jpg", read)


def _elsewhere(url: str) -> Response:
    return RedirectResponse(url, status_code=307, headers={"Referrer-Policy": "no-referrer"})
