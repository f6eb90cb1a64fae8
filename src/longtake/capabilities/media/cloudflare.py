"""Frames by Cloudflare Media Transformations: an optional way, for those whose zone has it switched on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtake.adapters.decoder.request import Made, Wish
from longtake.adapters.storage.media_type import JPEG, media_type
from longtake.errors import MediaRefused, ResultNotCopied

if TYPE_CHECKING:
    from longtake.adapters.decoder.decoders import Decoders
    from longtake.adapters.net import HttpClient

#: Cloudflare fetches the video before it answers.
ASKING_SECONDS = 20.0
MOST_BYTES = 5_000_000
OK = 200
WISH = "mode=frame,time=0.1s,width=960,height=540,fit=cover,format=jpg"


class CloudflareFrames:
    """Asks one zone, such as `https://media.example.com`. What it sends is decoded as any file of a stranger's."""

    def __init__(self, client: HttpClient, decoders: Decoders, zone: str) -> None:
        self._client = client
        self._decoders = decoders
        self._zone = zone.rstrip("/")

    async def make(self, url: str) -> Made:
        """Return a frame of the video at this address, which Cloudflare must be able to open by itself."""
        self._client.check_url(url)
        address = f"{self._zone}/cdn-cgi/media/{WISH}/{url}"
        answer = await self._client.request("GET", address, seconds=ASKING_SECONDS, most_bytes=MOST_BYTES)
        if answer.status != OK:
            raise ResultNotCopied(f"Cloudflare answers {answer.status} to the wish for a frame.")
        if media_type(answer.body) != JPEG:
            raise MediaRefused("Cloudflare answers with something else than a JPEG.", hint="")
        return await self._decoders.make(Wish("still", JPEG.content_type), _Body(answer.body))


class _Body:
    """A file that is in memory."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.size = len(body)

    async def read(self, offset: int, length: int) -> bytes:
        return self._body[offset : offset + length]
