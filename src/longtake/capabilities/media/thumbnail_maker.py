"""Makes thumbnails from our copy, from the source or by Cloudflare; reads an image's size from its header."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from longtake.adapters.decoder.errors import MediaRefused
from longtake.adapters.decoder.protocol import DecodeRequest, DecodeResult
from longtake.adapters.storage.errors import StorageError
from longtake.adapters.storage.keys import FIRST_BYTES, JPEG, PNG, WEBP, MediaType, media_type
from longtake.capabilities.media.range_reader import Spools, StoredFile, open_source
from longtake.capability import AssetOwner
from longtake.errors import LongtakeError
from longtake.services.assets.errors import AssetGone, ResultNotCopied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from longtake.adapters.decoder.pool import DecoderPool
    from longtake.adapters.net import HttpClient
    from longtake.adapters.storage import Storage
    from longtake.capabilities.media.range_reader import RangedFile
    from longtake.services.assets import Asset


LEAST_SIDE = 64
MOST_SIDE = 8192
MOST_PIXELS = 50_000_000

_BROKEN = "The file is damaged, or not whole."
#: Markers of JPEG that begin a frame and hold its size; C4, C8 and CC are tables.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_WITHOUT_LENGTH = frozenset((0x01, *range(0xD0, 0xD8)))
_START_OF_SCAN = 0xDA


def image_size(body: bytes, media: MediaType) -> tuple[int, int]:
    """Return width and height. Raises MediaRefused if the image is incomplete, too small or too large."""
    try:
        width, height = _READERS[media](body)
    except (struct.error, IndexError, KeyError):
        raise MediaRefused(_BROKEN, hint="") from None
    if min(width, height) < LEAST_SIDE or max(width, height) > MOST_SIDE or width * height > MOST_PIXELS:
        raise MediaRefused(
            f"The image is {width}×{height}; each side must be {LEAST_SIDE} to {MOST_SIDE} pixels,"
            f" and the whole at most {MOST_PIXELS:,} pixels.",
            hint="",
            width=width,
            height=height,
        )
    return width, height


def _png_size(body: bytes) -> tuple[int, int]:
    length, name, width, height = struct.unpack_from(">I4sII", body, 8)
    if name != b"IHDR" or length != 13 or b"IEND" not in body[-64:]:  # noqa: PLR2004 - as the format has it
        raise MediaRefused(_BROKEN, hint="")
    return width, height


def _jpeg_size(body: bytes) -> tuple[int, int]:
    if body.rfind(b"\xff\xd9") < 0:
        raise MediaRefused(_BROKEN, hint="")
    position = 2
    while True:
        if body[position] != 0xFF:  # noqa: PLR2004
            raise MediaRefused(_BROKEN, hint="")
        marker = body[position + 1]
        if marker == 0xFF:  # noqa: PLR2004 - a marker may be preceded by any number of these
            position += 1
        elif marker in _WITHOUT_LENGTH:
            position += 2
        elif marker in _FRAMES:
            height, width = struct.unpack_from(">HH", body, position + 5)
            return width, height
        elif marker == _START_OF_SCAN:
            raise MediaRefused(_BROKEN, hint="")
        else:
            position += 2 + struct.unpack_from(">H", body, position + 2)[0]


def _webp_size(body: bytes) -> tuple[int, int]:
    if struct.unpack_from("<I", body, 4)[0] + 8 > len(body):
        raise MediaRefused(_BROKEN, hint="")
    form = body[12:16]
    if form == b"VP8X":
        return int.from_bytes(body[24:27], "little") + 1, int.from_bytes(body[27:30], "little") + 1
    if form == b"VP8L" and body[20] == 0x2F:  # noqa: PLR2004 - the signature of a lossless picture
        bits = struct.unpack_from("<I", body, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8 " and body[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", body, 26)
        return width & 0x3FFF, height & 0x3FFF
    raise MediaRefused(_BROKEN, hint="")


_READERS = {PNG: _png_size, JPEG: _jpeg_size, WEBP: _webp_size}


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
            return await self._from_file(await StoredFile.open(self._storage, asset.key), asset, "copy")
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
        return await self._decoders.decode(DecodeRequest("still", JPEG.content_type), _MemoryFile(answer.body))


class _MemoryFile:
    """A file in memory."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.size = len(body)

    async def read(self, offset: int, length: int) -> bytes:
        return self._body[offset : offset + length]
