"""The still picture of an asset: of our copy or of its source, whichever can be read first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from longtake.adapters.decoder.request import Made, Wish
from longtake.adapters.storage.media_type import FIRST_BYTES, media_type
from longtake.capabilities.media.range_reader import StoredFile, opened_source
from longtake.capabilities.media.sources import PlainSources, ResultSources
from longtake.capabilities.media.spool import Spools
from longtake.errors import AssetGone, LongtakeError, MediaRefused, StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from longtake.adapters.decoder.decoders import Decoders
    from longtake.adapters.net import HttpClient
    from longtake.adapters.storage import Storage
    from longtake.capabilities.media.cloudflare import CloudflareFrames
    from longtake.capabilities.media.range_reader import RangedFile
    from longtake.services.assets import Asset

log = structlog.get_logger(__name__)

WIDTH, HEIGHT, QUALITY, AT_SECONDS = 960, 540, 95, 0.1
VERSION = 2


@dataclass(frozen=True, slots=True)
class Still:
    """A thumbnail and its placeholder; width, height and duration are the file's own, None where they are not known."""

    picture: bytes
    placeholder: bytes
    width: int | None
    height: int | None
    duration_seconds: float | None
    #: How it was made, for the row.
    metadata: Mapping[str, Any]


class Stills:
    """Makes stills. With ``cloudflare``, of videos at public addresses there first."""

    def __init__(
        self,
        storage: Storage,
        client: HttpClient,
        decoders: Decoders,
        sources: ResultSources | None = None,
        cloudflare: CloudflareFrames | None = None,
    ) -> None:
        self._storage = storage
        self._client = client
        self._decoders = decoders
        self._sources = sources or PlainSources()
        self._cloudflare = cloudflare
        self._spools = Spools()

    async def make(self, asset: Asset, *, of_copy: bool = False) -> Still:
        """Make the still; ``of_copy`` leaves the source alone, which was tried often enough.

        Raises StorageError when our copy is there and cannot be read now, and the source gives nothing either.
        """
        if asset.key is None:
            return await self._of_source(asset)
        try:
            return await self._of(await StoredFile.open(self._storage, asset.key), asset, "copy")
        except (AssetGone, StorageError) as trouble:
            if of_copy or asset.source_url is None:
                raise
            try:
                return await self._of_source(asset)
            except LongtakeError as error:
                raise trouble from error

    async def _of_source(self, asset: Asset) -> Still:
        headers = await self._sources.download_headers(asset)
        # Whoever wants a key of ours gets it from us alone.
        if self._cloudflare is not None and asset.kind == "video" and asset.source_url and not headers:
            try:
                made = await self._cloudflare.make(asset.source_url)
            except LongtakeError as error:
                log.info("Cloudflare gave no frame", action="thumbnail", asset_id=asset.id, code=error.code)
            else:
                told = {"method": "cloudflare", "version": VERSION, "of": "source"}
                return Still(made.picture, made.placeholder, None, None, None, told)
        async with opened_source(self._client, asset.source_url or "", headers, self._spools) as file:
            return await self._of(file, asset, "source")

    async def _of(self, file: RangedFile, asset: Asset, of: str) -> Still:
        media = media_type(file.first[:FIRST_BYTES])
        if media is None or media.kind != asset.kind:
            raise MediaRefused(f"The file is not {'an image' if asset.kind == 'image' else 'a video'} that is kept.")
        wish = Wish("still", media.content_type, WIDTH, HEIGHT, QUALITY, AT_SECONDS)
        made: Made = await self._decoders.make(wish, file)
        told = {"method": "frames", "version": VERSION, "of": of, "bytes_read": made.bytes_read}
        return Still(made.picture, made.placeholder, made.width, made.height, made.duration_seconds, told)
