"""Addresses of posters: the normalised form that is hashed, and other sizes of the same picture."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from longtake.errors import PosterPathInvalid

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
