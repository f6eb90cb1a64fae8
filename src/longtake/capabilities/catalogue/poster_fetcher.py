"""Fetching one poster: in the size it was asked for, else in another; whole, decoded once to be sure, or not at all."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longtake.adapters.decoder.pool import DecoderPool
from longtake.adapters.decoder.process import MemoryFile
from longtake.adapters.decoder.protocol import DecodeRequest, DecodeResult
from longtake.adapters.net.retry_after import header_seconds
from longtake.adapters.storage.media_type import MediaType, media_type
from longtake.capabilities.catalogue.poster_urls import PosterHosts
from longtake.errors import (
    AddressRefused,
    AnswerTooLarge,
    DecoderFailed,
    MediaRefused,
    NetError,
    PosterBroken,
    PosterError,
    PosterPathInvalid,
    PosterStatus,
    PosterUnreachable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from longtake.adapters.net import HttpClient, Response
    from longtake.clock import Clock

OK, NOT_MODIFIED = 200, 304
SECONDS = 30.0
MOST_BYTES = 20_000_000
THUMBNAIL_SIZE = (200, 300)
THUMBNAIL_QUALITY = 75


@dataclass(frozen=True, slots=True)
class Picture:
    """A poster that is whole: its bytes, what they are, a small copy for lists, and how to ask whether it changed."""

    body: bytes
    media: MediaType
    width: int
    height: int
    thumbnail: bytes
    #: Where it was fetched from; None for one that was found in our storage.
    url: str | None = None
    etag: str | None = None
    last_modified: str | None = None

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of its bytes."""
        return hashlib.sha256(self.body).hexdigest()


@dataclass(frozen=True, slots=True)
class Known:
    """What we have of a poster already: where it came from, and in what version."""

    url: str
    etag: str | None
    last_modified: str | None

    def conditions(self, url: str) -> dict[str, str]:
        """Return what asks for the picture only if it has changed since."""
        if url != self.url:
            return {}
        said = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in said.items() if value}


class PosterFetcher:
    """Fetches posters with the guarded client."""

    def __init__(
        self, client: HttpClient, decoders: DecoderPool, hosts: PosterHosts, user_agent: str, clock: Clock
    ) -> None:
        self._client = client
        self._decoders = decoders
        self._hosts = hosts
        self._user_agent = user_agent
        self._clock = clock

    async def fetch(self, url: str, known: Known | None = None) -> Picture | None:
        """Return the poster; None when it is the one that is known. Raises the PosterError of the size asked for.

        Only what another size may cure is asked for in another size: a server that is down is left in peace.
        """
        first: PosterError | None = None
        for one in self._hosts.sizes(url):
            try:
                return await self._fetch_size(one, known)
            except PosterError as error:
                first = first or error
                if not error.lasting:
                    raise
        raise first or PosterUnreachable("There is no address to ask.")

    async def _fetch_size(self, url: str, known: Known | None) -> Picture | None:
        answer = await self._ask(url, known.conditions(url) if known else {})
        if answer.status == NOT_MODIFIED and known is not None:
            return None
        if answer.status != OK:
            retry_after = header_seconds(answer.headers.get("Retry-After"), self._clock.now())
            message = f"The poster's server answered {answer.status}."
            raise PosterStatus(message, status=answer.status, retry_after=retry_after)
        media = media_type(answer.body)
        if media is None or media.kind != "image":
            raise PosterBroken("The poster's address gives something that is not a picture of a kind that we keep.")
        made = await self.check(answer.body, media)
        etag, modified = (answer.headers.get(name, "")[:500] or None for name in ("ETag", "Last-Modified"))
        return Picture(answer.body, media, made.width, made.height, made.picture, url, etag, modified)

    async def check(self, body: bytes, media: MediaType) -> DecodeResult:
        """Decode the picture once; return its small copy. Raises PosterBroken when it is not whole."""
        width, height = THUMBNAIL_SIZE
        request = DecodeRequest("small", media.content_type, width=width, height=height, quality=THUMBNAIL_QUALITY)
        try:
            return await self._decoders.decode(request, MemoryFile(body))
        except (MediaRefused, DecoderFailed) as error:
            raise PosterBroken(f"The poster cannot be used: {error.message}") from None

    async def _ask(self, url: str, conditions: Mapping[str, str]) -> Response:
        headers = {"User-Agent": self._user_agent, **conditions}
        try:
            return await self._client.request(
                "GET", url, headers=headers, seconds=SECONDS, most_bytes=MOST_BYTES, redirects=5
            )
        except AddressRefused as error:
            raise PosterPathInvalid(error.message) from None
        except AnswerTooLarge as error:
            raise PosterBroken(error.message) from None
        except NetError as error:
            raise PosterUnreachable(error.message) from None
