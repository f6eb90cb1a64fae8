"""Fetches a poster in the size asked for, else in another; decodes it once, so that it is whole or not taken at all."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from longtake.adapters.decoder.errors import DecoderFailed, MediaRefused
from longtake.adapters.decoder.pool import DecoderPool, MemoryFile
from longtake.adapters.decoder.protocol import DecodeRequest, DecodeResult
from longtake.adapters.net.errors import AddressRefused, AnswerTooLarge, NetError
from longtake.adapters.net.responses import retry_after_seconds
from longtake.adapters.storage.keys import MediaType, media_type
from longtake.capabilities.catalogue.errors import (
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


LOCAL_PREFIX = "/posters/"
HASH_CHARACTERS = 16
URL_LIMIT = 2_000
#: Letters, digits, hyphen, underscore and dot: no way out of the folder, nothing hidden.
_LOCAL = re.compile(r"/posters/[A-Za-z0-9_-][A-Za-z0-9._-]{0,100}")
_BANGUMI_HOST = re.compile(r"(?:[a-z0-9-]+\.)*bgm\.tv", re.IGNORECASE)
_RESIZED = re.compile(r"/r/\d+(?:x\d+)?(?=/)")
_COVER = re.compile(r"(/pic/cover/)([lcmsg])(/)")
_STILL = re.compile(r"(/t/p/)([a-z0-9]+)(/)")
#: The best size first.
COVER_SIZES = ("l", "c", "m", "s", "g")
STILL_SIZES = ("w780", "w500", "w342", "original", "w185", "w154", "w92")


@dataclass(frozen=True, slots=True)
class PosterHosts:
    """Where Bangumi's covers and TMDB's pictures are; every other host under bgm.tv has covers as well."""

    bangumi: str = "https://lain.bgm.tv"
    tmdb: str = "https://image.tmdb.org"

    def normalised(self, url: str) -> str:
        """Return the address as it is hashed and fetched: Bangumi's covers without their size."""
        url = url.strip()
        return _RESIZED.sub("", url, count=1) if self._is_bangumi(url) else url

    def sizes(self, url: str) -> Iterator[str]:
        """Yield the address, then those of the same picture in other sizes."""
        yield url
        if self._is_bangumi(url):
            yield from _other_sizes(url, _COVER, COVER_SIZES)
        elif _is_below(url, self.tmdb):
            yield from _other_sizes(url, _STILL, STILL_SIZES)

    def is_main_source(self, url: str) -> bool:
        """Say whether the address is Bangumi's or TMDB's, where most posters are."""
        return self._is_bangumi(url) or _is_below(url, self.tmdb)

    def _is_bangumi(self, url: str) -> bool:
        return _is_below(url, self.bangumi) or bool(_BANGUMI_HOST.fullmatch(_host(url)))


def poster_hash(url: str) -> str:
    """Return the poster's name: the first characters of the hash of its normalised address."""
    return hashlib.sha256(url.encode()).hexdigest()[:HASH_CHARACTERS]


def is_local(poster: str) -> bool:
    """Say whether the poster is stored here; False for an address. Raises PosterPathInvalid for anything else."""
    if poster.lower().startswith(("http://", "https://")):
        if len(poster) > URL_LIMIT or not _host(poster):
            raise PosterPathInvalid(f"The poster's address has no host, or more than {URL_LIMIT:,} characters.")
        return False
    if _LOCAL.fullmatch(poster):
        return True
    raise PosterPathInvalid(f"{poster[:100]!r} is neither an http(s) address nor a path below {LOCAL_PREFIX}.")


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_below(url: str, base: str) -> bool:
    return url.startswith(base.rstrip("/") + "/")


def _other_sizes(url: str, pattern: re.Pattern[str], sizes: tuple[str, ...]) -> Iterator[str]:
    found = pattern.search(url)
    if found is not None:
        for size in sizes:
            if size != found[2]:
                yield pattern.sub(rf"\g<1>{size}\g<3>", url, count=1)


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
