"""An asset's file over HTTP: by ranges, with a content type that we know to be true and browsers must not guess at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Response
from starlette.responses import RedirectResponse, StreamingResponse

from longtake.asset_registry.links import LINK_SECONDS
from longtake.assets.ranges import RangeNotSatisfiable, wanted_range
from longtake.errors import AssetGone
from longtake.storage.media import MEDIA_TYPES

if TYPE_CHECKING:
    from starlette.requests import Request

    from longtake.asset_registry import Asset, AssetLinks
    from longtake.storage import Storage

DOWNLOAD_ONLY = "application/octet-stream"
#: A picture or a video has no scripts; if anything ever takes one for a page, it may load and run nothing.
POLICY = "default-src 'none'; sandbox"


async def content_response(request: Request, asset: Asset, storage: Storage, links: AssetLinks) -> Response:
    """Answer with the file, a part of it, or where it is. Raises AssetGone when it cannot be had."""
    if asset.key is None:
        source = links.source_url(asset)
        if source is None:
            raise AssetGone(f"The file of the asset {asset.id} was not kept, and its source has ended.")
        return _elsewhere(source)
    # Asked also where somebody else will serve it: an address of nothing helps nobody.
    facts = await storage.facts(asset.key)
    if facts is None:
        raise AssetGone(f"The file of the asset {asset.id} is gone from the storage.")
    # An address is signed for reading; who asks for headers only gets them here.
    signed = await storage.signed_url(asset.key, LINK_SECONDS) if request.method != "HEAD" else None
    return _elsewhere(signed) if signed is not None else _file(request, asset, asset.key, facts.size, storage)


def _elsewhere(url: str) -> Response:
    return RedirectResponse(url, status_code=307, headers={"Referrer-Policy": "no-referrer"})


def _file(request: Request, asset: Asset, key: str, size: int, storage: Storage) -> Response:
    headers = _headers(asset, key)
    etag = headers["ETag"]
    if etag in [one.strip() for one in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers=headers)
    # A part of a file that has changed since is worth nothing.
    same = request.headers.get("if-range", etag) == etag
    try:
        part = wanted_range(request.headers.get("range") if same else None, size)
    except RangeNotSatisfiable:
        return Response(status_code=416, headers={"Content-Range": f"bytes */{size}", "Accept-Ranges": "bytes"})
    start, end = part or (0, size)
    headers["Content-Length"] = str(end - start)
    if part is not None:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    status = 200 if part is None else 206
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers)
    return StreamingResponse(storage.read(key, start, end), status_code=status, headers=headers)


def _headers(asset: Asset, key: str) -> dict[str, str]:
    known = asset.content_type in MEDIA_TYPES
    how = "inline" if known else "attachment"
    return {
        "Content-Type": asset.content_type if known and asset.content_type else DOWNLOAD_ONLY,
        "Content-Disposition": f'{how}; filename="{asset.id}.{key.rpartition(".")[2]}"',
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Accept-Ranges": "bytes",
        "ETag": f'"{asset.checksum}"',
    }
