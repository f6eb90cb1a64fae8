"""TMDB's API, version 3: shows discovered by year, searched by name, in detail, and their posters."""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from longtake_sandbox.calls import Endpoint, Exchange, json_response
from longtake_sandbox.files import answer_picture, refuse_picture

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from aiohttp import web

    from longtake_sandbox.faults import Fault
    from longtake_sandbox.sandbox import Sandbox
    from longtake_sandbox.titles import Names

#: How many searches for parts of names are remembered.
REMEMBERED = 1024


@dataclass(frozen=True, slots=True)
class Show:
    """A show in TMDB."""

    id: int
    #: The English and Chinese names are translations; the Japanese one need not be the original.
    names: Names
    original_name: str
    original_language: str
    first_air_date: date
    #: Empty if it has no poster.
    poster_file: str
    alternative_names: tuple[str, ...] = ()
    #: The title whose cover changes together with this poster; 0 for none.
    bangumi_id: int = 0

    @property
    def popularity(self) -> float:
        """Return an arbitrary figure, so that lists are not in the order of ids."""
        return self.id * 7_919 % 100_003 / 100

    def all_names(self) -> set[str]:
        """Return every name that a search finds it by, normalised."""
        found = (self.original_name, self.names.en, self.names.zh, *self.alternative_names)
        return {normalised(name) for name in found}


class Shows:
    """All shows. Every list is in the order of popularity."""

    def __init__(self, shows: Iterable[Show]) -> None:
        ordered = sorted(shows, key=lambda show: (-show.popularity, show.id))
        self._by_id = {show.id: show for show in ordered}
        self._by_poster = {show.poster_file: show for show in ordered if show.poster_file}
        self._by_name: dict[str, list[Show]] = {}
        self._groups: dict[tuple[str, str], list[Show]] = {}
        self._by_part: OrderedDict[str, list[Show]] = OrderedDict()
        for show in ordered:
            for name in show.all_names():
                self._by_name.setdefault(name, []).append(show)
            for language in ("", show.original_language):
                for year in ("", str(show.first_air_date.year)):
                    self._groups.setdefault((language, year), []).append(show)
        # All names in one string: searching it is much faster than searching a list of names.
        self._names = list(self._by_name)
        self._text = "\n".join(self._names)
        self._starts: list[int] = []
        start = 0
        for name in self._names:
            self._starts.append(start)
            start += len(name) + 1

    def get(self, number: int) -> Show | None:
        return self._by_id.get(number)

    def of_poster(self, file: str) -> Show | None:
        return self._by_poster.get(file)

    def discover(self, language: str = "", year: str = "") -> list[Show]:
        """Return the shows of a language and a year. An empty string means any."""
        return self._groups.get((language, year), [])

    def search(self, query: str, year: str = "") -> list[Show]:
        """Return the shows with this name, or else those with a name that contains it."""
        name = normalised(query)
        if not name:
            return []
        found = self._by_name.get(name) or self._containing(name)
        return [show for show in found if not year or str(show.first_air_date.year) == year]

    def _containing(self, part: str) -> list[Show]:
        found = self._by_part.get(part)
        if found is None:
            numbers = {show.id for name in self._names_with(part) for show in self._by_name[name]}
            found = sorted((self._by_id[one] for one in numbers), key=lambda show: (-show.popularity, show.id))
            self._by_part[part] = found
            if len(self._by_part) > REMEMBERED:
                self._by_part.popitem(last=False)
        return found

    def _names_with(self, part: str) -> Iterable[str]:
        at = self._text.find(part)
        while at >= 0:
            place = bisect_right(self._starts, at) - 1
            yield self._names[place]
            at = self._text.find(part, self._starts[place] + len(self._names[place]))


def normalised(name: str) -> str:
    """Return the name without differences in case, width and spacing."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


PAGE_SIZE = 20
MOST_PAGES = 500
#: TMDB's code for each HTTP status.
CODES = {400: 5, 401: 7, 404: 34, 429: 25, 500: 11, 502: 11, 503: 9, 504: 24}
INVALID_PAGE = 22
SIZES = {
    "w92": (92, 138), "w154": (154, 231), "w185": (185, 278), "w342": (342, 513), "w500": (500, 750),
    "w780": (780, 1170), "original": (1000, 1500),
}  # fmt: skip
NO_SHOW = "The resource you requested could not be found."


def refuse(status: int, code: int, message: str, fault: Fault | None = None) -> web.Response:
    """Return an error in TMDB's shape. A fault may name its own code."""
    own = code if fault is None or fault.code is not None else CODES.get(status, 11)
    return json_response({"success": False, "status_code": own, "status_message": message}, status)


def check_caller(sandbox: Sandbox, exchange: Exchange) -> web.Response | None:
    """Return the refusal of a call without a valid key or over the limit; None if the call may pass."""
    request = exchange.request
    key = request.query.get("api_key") or request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
    if not sandbox.accepts_key(key):
        return refuse(401, 7, "Invalid API key: You must be granted a valid key.")
    limit, now, counted = sandbox.options.tmdb_limit, sandbox.now(), f"tmdb {key}"
    if limit is None or sandbox.limiter.admit(counted, limit, now):
        return None
    response = refuse(429, 25, f"Your request count is over the allowed limit of {limit.count}.")
    response.headers["Retry-After"] = str(max(1, math.ceil(sandbox.limiter.wait(counted, limit, now))))
    return response


async def discover(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """List the shows of a language and a year, the most popular first."""
    query = exchange.request.query
    language, year = query.get("with_original_language", ""), query.get("first_air_date_year", "")
    return _page(exchange, sandbox.catalogue.shows.discover(language, year))


async def search(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """List the shows found by name."""
    query = exchange.request.query
    year = query.get("first_air_date_year") or query.get("year", "")
    return _page(exchange, sandbox.catalogue.shows.search(query.get("query", ""), year))


async def details(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Return one show, with the appended parts."""
    number = exchange.request.match_info["number"]
    show = sandbox.catalogue.shows.get(int(number)) if _is_number(number) else None
    if show is None:
        return refuse(404, 34, NO_SHOW)
    content = _show(show, exchange.request.query.get("language", ""))
    content |= {"number_of_seasons": 1, "number_of_episodes": 12, "status": "Ended", "type": "Scripted"}
    appended = exchange.request.query.get("append_to_response", "").split(",")
    if "alternative_titles" in appended:
        names = [{"iso_3166_1": "JP", "title": name, "type": ""} for name in show.alternative_names]
        content["alternative_titles"] = {"results": names}
    if "translations" in appended:
        translated = {"en": show.names.en, "zh": show.names.zh}
        content["translations"] = {
            "translations": [{"iso_639_1": one, "data": {"name": name}} for one, name in translated.items()]
        }
    return json_response(content)


async def poster(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Send a poster in one of TMDB's sizes."""
    place = exchange.request.match_info
    size, show = SIZES.get(place["size"]), sandbox.catalogue.shows.of_poster(place["file"])
    if size is None or show is None:
        return refuse_picture(404, 404, "File not found.")
    return answer_picture(exchange, show.id, sandbox.covers.of(show.bangumi_id), size)


def _page(exchange: Exchange, shows: list[Show]) -> web.Response:
    query = exchange.request.query
    text = query.get("page", "1")
    page = int(text) if _is_number(text) else 0
    if not 1 <= page <= MOST_PAGES:
        message = "Invalid page: Pages start at 1 and max at 500. They are expected to be an integer."
        return refuse(400, INVALID_PAGE, message)
    part = shows[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    return json_response({
        "page": page,
        "results": [_show(show, query.get("language", "")) for show in part],
        "total_pages": min(max(1, math.ceil(len(shows) / PAGE_SIZE)), MOST_PAGES),
        "total_results": len(shows),
    })  # fmt: skip


def _show(show: Show, language: str) -> dict[str, Any]:
    translated = {"ja": show.original_name, "zh": show.names.zh}.get(language.partition("-")[0], show.names.en)
    return {
        "adult": False,
        "backdrop_path": None,
        "genre_ids": [16],
        "id": show.id,
        "name": translated,
        "origin_country": [{"ja": "JP", "zh": "CN", "ko": "KR"}.get(show.original_language, "US")],
        "original_language": show.original_language,
        "original_name": show.original_name,
        "overview": "",
        "popularity": show.popularity,
        "poster_path": f"/{show.poster_file}" if show.poster_file else None,
        "first_air_date": show.first_air_date.isoformat(),
        "vote_average": show.id % 50 / 10 + 5,
        "vote_count": show.id % 997,
    }


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,12}", text) is not None


_endpoint = partial(Endpoint, provider="tmdb", refuse=refuse, check=check_caller)
ENDPOINTS = (
    _endpoint("GET", "/tmdb/3/discover/tv", "discover", discover),
    _endpoint("GET", "/tmdb/3/search/tv", "search", search),
    _endpoint("GET", "/tmdb/3/tv/{number}", "details", details),
    Endpoint("GET", "/tmdb-images/t/p/{size}/{file}", "image", poster, provider="tmdb", refuse=refuse_picture),
)
