"""Fetches a poster in the size asked for, else in another; decodes it once, so that it is whole or not taken at all."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longtake.adapters.decoder.pool import DecoderPool, MemoryFile
from longtake.adapters.decoder.protocol import DecodeRequest, DecodeResult
from longtake.adapters.net.responses import retry_after_seconds
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
class FetchedPoster:
    """A whole poster: its bytes and their type, a thumbnail, and what to ask with whether it has changed."""

    body: bytes
    media: MediaType
    width: int
    height: int
    thumbnail: bytes
    #: Where it was fetched from; None for one found in our storage.
    url: str | None = None
    etag: str | None = None
    last_modified: str | None = None

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of its bytes."""
        return hashlib.sha256(self.body).hexdigest()


@dataclass(frozen=True, slots=True)
class KnownPoster:
    """A poster stored before: where it came from, and in which version."""

    url: str
    etag: str | None
    last_modified: str | None

    def conditions(self, url: str) -> dict[str, str]:
        """Return the headers that ask for the poster only if it has changed."""
        if url != self.url:
            return {}
        said = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in said.items() if value}


class PosterFetcher:
    """Fetches posters with an HTTP client that refuses private addresses."""

    def __init__(
        self, client: HttpClient, decoders: DecoderPool, hosts: PosterHosts, user_agent: str, clock: Clock
    ) -> None:
        self._client = client
        self._decoders = decoders
        self._hosts = hosts
        self._user_agent = user_agent
        self._clock = clock

    async def fetch(self, url: str, known: KnownPoster | None = None) -> FetchedPoster | None:
        """Return the poster; None when the known one has not changed. Raises the PosterError of the size asked for.

        Another size is tried only for an error that it may avoid: a server that is down is not asked again.
        """
        first: PosterError | None = None
        for one in self._hosts.sizes(url):
            try:
                return await self._fetch_size(one, known)
            except PosterError as error:
                first = first or error
                if not error.lasting:
                    raise
        raise first or PosterUnreachable("The poster has no address to fetch.")

    async def _fetch_size(self, url: str, known: KnownPoster | None) -> FetchedPoster | None:
        answer = await self._ask(url, known.conditions(url) if known else {})
        if answer.status == NOT_MODIFIED and known is not None:
            return None
        if answer.status != OK:
            retry_after = retry_after_seconds(answer.headers.get("Retry-After"), self._clock.now())
            message = f"The poster's server answered {answer.status}."
            raise PosterStatus(message, status=answer.status, retry_after=retry_after)
        media = media_type(answer.body)
        if media is None or media.kind != "image":
            raise PosterBroken("The poster's address did not return a JPEG, PNG, WebP or GIF image.")
        made = await self.check(answer.body, media)
        etag, modified = (answer.headers.get(name, "")[:500] or None for name in ("ETag", "Last-Modified"))
        return FetchedPoster(answer.body, media, made.width, made.height, made.picture, url, etag, modified)

    async def check(self, body: bytes, media: MediaType) -> DecodeResult:
        """Decode the image once, and return its thumbnail. Raises PosterBroken when it is not whole."""
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
