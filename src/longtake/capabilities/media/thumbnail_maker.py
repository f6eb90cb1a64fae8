"""Makes thumbnails from our copy, from the source or by Cloudflare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from longtake.adapters.decoder.errors import MediaRefused
from longtake.adapters.decoder.pool import DecoderPool, MemoryFile
from longtake.adapters.decoder.protocol import DecodeRequest, DecodeResult
from longtake.adapters.storage.errors import StorageError
from longtake.adapters.storage.media_type import FIRST_BYTES, JPEG, media_type
from longtake.capabilities.media.range_reader import Spools, open_source, open_stored
from longtake.capability import AssetOwner
from longtake.errors import LongtakeError
from longtake.services.assets.errors import AssetGone, ResultNotCopied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from longtake.adapters.net import HttpClient
    from longtake.adapters.storage import Storage
    from longtake.capabilities.media.range_reader import RangedFile
    from longtake.services.assets import Asset


log = structlog.get_logger(__name__)

WIDTH, HEIGHT, QUALITY, AT_SECONDS = 960, 540, 95, 0.1
VERSION = 2
#: Cloudflare fetches the video before it answers.
CLOUDFLARE_SECONDS = 20.0
CLOUDFLARE_BYTES = 5_000_000
OK = 200
CLOUDFLARE_OPTIONS = "mode=frame,time=0.1s,width=960,height=540,fit=cover,format=jpg"


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A thumbnail and its placeholder. Width, height and duration are those of the file, None if unknown."""

    picture: bytes
    placeholder: bytes
    width: int | None
    height: int | None
    duration_seconds: float | None
    #: How it was made, for the column `thumbnail_metadata`.
    metadata: Mapping[str, Any]


class ThumbnailMaker:
    """Makes thumbnails. With ``cloudflare``, those of videos at public addresses are requested there first."""

    def __init__(
        self,
        storage: Storage,
        client: HttpClient,
        decoders: DecoderPool,
        owner: AssetOwner | None = None,
        cloudflare: CloudflareFrames | None = None,
    ) -> None:
        self._storage = storage
        self._client = client
        self._decoders = decoders
        self._owner = owner or AssetOwner()
        self._cloudflare = cloudflare
        self._spools = Spools()

    async def make(self, asset: Asset, *, of_copy: bool = False) -> Thumbnail:
        """Return a thumbnail. ``of_copy`` leaves out the source, which has used up its tries.

        Raises StorageError when our copy exists but cannot be read now, and the source fails too.
        """
        if asset.key is None:
            return await self._from_source(asset)
        try:
            return await self._from_file(await open_stored(self._storage, asset.key), asset, "copy")
        except (AssetGone, StorageError) as trouble:
            if of_copy or asset.source_url is None:
                raise
            try:
                return await self._from_source(asset)
            except LongtakeError as error:
                raise trouble from error

    async def _from_source(self, asset: Asset) -> Thumbnail:
        headers = await self._owner.download_headers(asset)
        # A source that needs our key must not be handed to Cloudflare.
        if self._cloudflare is not None and asset.kind == "video" and asset.source_url and not headers:
            try:
                made = await self._cloudflare.make(asset.source_url)
            except LongtakeError as error:
                log.info("Cloudflare gave no frame", action="thumbnail", asset_id=asset.id, code=error.code)
            else:
                metadata = {"method": "cloudflare", "version": VERSION, "of": "source"}
                return Thumbnail(made.picture, made.placeholder, None, None, None, metadata)
        async with open_source(self._client, asset.source_url or "", headers, self._spools) as file:
            return await self._from_file(file, asset, "source")

    async def _from_file(self, file: RangedFile, asset: Asset, of: str) -> Thumbnail:
        media = media_type(file.first[:FIRST_BYTES])
        if media is None or media.kind != asset.kind:
            raise MediaRefused(
                f"The file is not {'an image' if asset.kind == 'image' else 'a video'} of a supported type."
            )
        wish = DecodeRequest("still", media.content_type, WIDTH, HEIGHT, QUALITY, AT_SECONDS)
        made: DecodeResult = await self._decoders.decode(wish, file)
        metadata = {"method": "frames", "version": VERSION, "of": of, "bytes_read": made.bytes_read}
        return Thumbnail(made.picture, made.placeholder, made.width, made.height, made.duration_seconds, metadata)


class CloudflareFrames:
    """Frames of videos by Cloudflare Media Transformations, from a zone such as `https://media.example.com`.

    Its answers are decoded like any other untrusted file.
    """

    def __init__(self, client: HttpClient, decoders: DecoderPool, zone: str) -> None:
        self._client = client
        self._decoders = decoders
        self._zone = zone.rstrip("/")

    async def make(self, url: str) -> DecodeResult:
        """Return a frame of the video at this address, which Cloudflare itself must be able to open."""
        self._client.check_url(url)
        address = f"{self._zone}/cdn-cgi/media/{CLOUDFLARE_OPTIONS}/{url}"
        answer = await self._client.request("GET", address, seconds=CLOUDFLARE_SECONDS, most_bytes=CLOUDFLARE_BYTES)
        if answer.status != OK:
            raise ResultNotCopied(f"Cloudflare answers {answer.status} to the request for a frame.")
        if media_type(answer.body) != JPEG:
            raise MediaRefused("Cloudflare did not send a JPEG.", hint="")
        return await self._decoders.decode(DecodeRequest("still", JPEG.content_type), MemoryFile(answer.body))
