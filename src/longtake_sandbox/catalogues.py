"""The two catalogues of titles: Bangumi's calendar, subjects and covers, and shows and posters of TMDB's API version 3.

Bangumi refuses clients that do not identify themselves. TMDB wants a key and has a limit.
"""

from __future__ import annotations

import hashlib
import math
import re
from functools import partial
from http.client import responses
from typing import TYPE_CHECKING, Any

from longtake_sandbox.calls import Endpoint, Exchange, Refused, json_response
from longtake_sandbox.files import answer_picture, refuse_picture

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from longtake_sandbox.faults import Fault
    from longtake_sandbox.sandbox import Sandbox
    from longtake_sandbox.titles import Show, Title

WEEKDAYS = (
    ("Mon", "星期一", "月耀日"), ("Tue", "星期二", "火耀日"), ("Wed", "星期三", "水耀日"), ("Thu", "星期四", "木耀日"),
    ("Fri", "星期五", "金耀日"), ("Sat", "星期六", "土耀日"), ("Sun", "星期日", "日耀日"),
)  # fmt: skip
#: User-Agents of libraries, which identify no application.
LIBRARIES = {
    "python", "python-requests", "python-urllib", "python-urllib3", "python-httpx", "aiohttp", "curl", "libcurl",
    "wget", "httpie", "go-http-client", "java", "okhttp", "axios", "node", "node-fetch", "undici",
}  # fmt: skip
COVER_SIZES = {"l": (424, 600), "c": (150, 212), "m": (100, 142), "s": (75, 106), "g": (48, 48)}
WIDTHS = {"100", "200", "400", "600", "800", "1200"}
LONGEST_SIDE = 1200
#: In the calendar every eleventh title has no images, and every fifth has a reduced cover as its large one.
WITHOUT_IMAGES, REDUCED = 11, 5


def refuse_bangumi(status: int, code: int, message: str, fault: Fault | None = None) -> web.Response:  # noqa: ARG001
    """Return an error in Bangumi's shape."""
    title = responses.get(status, "Error")
    request_id = hashlib.blake2s(message.encode(), digest_size=8).hexdigest()
    return json_response({"title": title, "description": message, "details": {}, "request_id": request_id}, status)


def names_an_application(user_agent: str) -> bool:
    """Return whether a User-Agent names anything but libraries. Text in brackets does not count."""
    products = re.sub(r"\([^)]*\)", " ", user_agent).split()
    return any(product.partition("/")[0].lower() not in LIBRARIES for product in products)


def check_user_agent(_sandbox: Sandbox, exchange: Exchange) -> web.Response | None:
    """Return the refusal of a call that names no application; None if the call may pass."""
    if names_an_application(exchange.request.headers.get("User-Agent", "")):
        return None
    return refuse_bangumi(403, 403, "Please set a User-Agent that names your application.")


async def calendar(sandbox: Sandbox, _exchange: Exchange) -> web.StreamResponse:
    """List the newest titles by weekday."""
    days: list[list[dict[str, Any]]] = [[] for _ in WEEKDAYS]
    for number, title in enumerate(sandbox.catalogue.calendar):
        days[title.air_date.weekday()].append(_item(sandbox, title, number))
    return json_response([
        {"weekday": {"en": en, "cn": cn, "ja": ja, "id": number}, "items": items}
        for number, ((en, cn, ja), items) in enumerate(zip(WEEKDAYS, days, strict=True), 1)
    ])  # fmt: skip


async def subject(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Return one title."""
    number = exchange.request.match_info["number"]
    if not is_number(number):
        raise Refused(400, 400, "subject id must be a number")
    title = sandbox.catalogue.by_id.get(int(number))
    if title is None:
        raise Refused(404, 404, "resource can't be found in the database or has been removed")
    return json_response({
        "id": title.bangumi_id, "type": 2, "name": title.names.ja, "name_cn": title.names.zh, "summary": "",
        "nsfw": False, "locked": False, "date": title.air_date.isoformat(), "platform": "TV",
        "images": {
            "large": cover_url(sandbox, title), "common": _reduced_url(sandbox, title, "400"),
            "medium": _reduced_url(sandbox, title, "800"), "small": _reduced_url(sandbox, title, "200"),
            "grid": _reduced_url(sandbox, title, "100"),
        },
        "infobox": [
            {"key": "中文名", "value": title.names.zh}, {"key": "别名", "value": [{"v": title.names.en}]},
        ],
        "volumes": 0, "eps": 12, "total_episodes": 12, "tags": [],
    })  # fmt: skip


async def cover(
    sandbox: Sandbox, exchange: Exchange, size_of: Callable[[str], tuple[int, int] | None]
) -> web.StreamResponse:
    """Send a cover in the requested size."""
    place = exchange.request.match_info
    size, title = size_of(place["size"]), sandbox.catalogue.by_cover.get(place["file"])
    if size is None or title is None:
        raise Refused(404, 404, "404 Not Found")
    return answer_picture(exchange, title.bangumi_id, sandbox.covers.of(title.bangumi_id), size)


def cover_url(sandbox: Sandbox, title: Title, size: str = "l") -> str:
    """Return the URL of a cover."""
    return f"{sandbox.url}/bangumi-images/pic/cover/{size}/{title.cover_file}"


def _reduced_url(sandbox: Sandbox, title: Title, size: str) -> str:
    return f"{sandbox.url}/bangumi-images/r/{size}/pic/cover/l/{title.cover_file}"


def _item(sandbox: Sandbox, title: Title, number: int) -> dict[str, Any]:
    large = _reduced_url(sandbox, title, "400") if number % REDUCED == REDUCED - 1 else cover_url(sandbox, title)
    images = {
        "large": large, "common": cover_url(sandbox, title, "c"), "medium": cover_url(sandbox, title, "m"),
        "small": cover_url(sandbox, title, "s"), "grid": cover_url(sandbox, title, "g"),
    }  # fmt: skip
    return {
        "id": title.bangumi_id, "url": f"http://bgm.tv/subject/{title.bangumi_id}", "type": 2,
        "name": title.names.ja, "name_cn": title.names.zh, "summary": "", "air_date": title.air_date.isoformat(),
        "air_weekday": title.air_date.isoweekday(),
        "images": None if number % WITHOUT_IMAGES == WITHOUT_IMAGES - 1 else images,
    }  # fmt: skip


def _reduced_size(text: str) -> tuple[int, int] | None:
    """Parse a width, or WIDTHxHEIGHT; None if there is no such size."""
    if text in WIDTHS:
        return int(text), int(text) * 600 // 424
    sides = re.fullmatch(r"([1-9][0-9]{0,3})x([1-9][0-9]{0,3})", text)
    if sides is None or max(int(sides[1]), int(sides[2])) > LONGEST_SIDE:
        return None
    return int(sides[1]), int(sides[2])


PAGE_SIZE = 20
MOST_PAGES = 500
#: TMDB's code for each HTTP status.
TMDB_CODES = {400: 5, 401: 7, 404: 34, 429: 25, 500: 11, 502: 11, 503: 9, 504: 24}
INVALID_PAGE = 22
POSTER_SIZES = {
    "w92": (92, 138), "w154": (154, 231), "w185": (185, 278), "w342": (342, 513), "w500": (500, 750),
    "w780": (780, 1170), "original": (1000, 1500),
}  # fmt: skip


def refuse_tmdb(status: int, code: int, message: str, fault: Fault | None = None) -> web.Response:
    """Return an error in TMDB's shape. A fault may name its own code."""
    own = code if fault is None or fault.code is not None else TMDB_CODES.get(status, 11)
    return json_response({"success": False, "status_code": own, "status_message": message}, status)


def check_key(sandbox: Sandbox, exchange: Exchange) -> web.Response | None:
    """Return the refusal of a call without a valid key or over the limit; None if the call may pass."""
    request = exchange.request
    key = request.query.get("api_key") or request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
    if not sandbox.accepts_key(key):
        return refuse_tmdb(401, 7, "Invalid API key: You must be granted a valid key.")
    limit, now, counted = sandbox.options.tmdb_limit, sandbox.now(), f"tmdb {key}"
    if limit is None or sandbox.limiter.admit(counted, limit, now):
        return None
    response = refuse_tmdb(429, 25, f"Your request count is over the allowed limit of {limit.count}.")
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
    show = sandbox.catalogue.shows.by_id.get(int(number)) if is_number(number) else None
    if show is None:
        raise Refused(404, 34, "The resource you requested could not be found.")
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
    size, show = POSTER_SIZES.get(place["size"]), sandbox.catalogue.shows.by_poster.get(place["file"])
    if size is None or show is None:
        raise Refused(404, 404, "File not found.")
    return answer_picture(exchange, show.id, sandbox.covers.of(show.bangumi_id), size)


def _page(exchange: Exchange, shows: list[Show]) -> web.Response:
    query = exchange.request.query
    text = query.get("page", "1")
    page = int(text) if is_number(text) else 0
    if not 1 <= page <= MOST_PAGES:
        message = "Invalid page: Pages start at 1 and max at 500. They are expected to be an integer."
        raise Refused(400, INVALID_PAGE, message)
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


def is_number(text: str) -> bool:
    """Return whether a text is an id or the number of a page."""
    return re.fullmatch(r"[0-9]{1,12}", text) is not None


_bangumi = partial(Endpoint, provider="bangumi", refuse=refuse_bangumi, check=check_user_agent)
_cover = partial(Endpoint, provider="bangumi", refuse=refuse_picture)
_tmdb = partial(Endpoint, provider="tmdb", refuse=refuse_tmdb, check=check_key)
ENDPOINTS = (
    _bangumi("GET", "/bangumi/calendar", "calendar", calendar),
    _bangumi("GET", "/bangumi/v0/subjects/{number}", "subject", subject),
    _cover("GET", "/bangumi-images/pic/cover/{size}/{file:.+}", "image", partial(cover, size_of=COVER_SIZES.get)),
    _cover("GET", "/bangumi-images/r/{size}/pic/cover/l/{file:.+}", "image", partial(cover, size_of=_reduced_size)),
    _tmdb("GET", "/tmdb/3/discover/tv", "discover", discover),
    _tmdb("GET", "/tmdb/3/search/tv", "search", search),
    _tmdb("GET", "/tmdb/3/tv/{number}", "details", details),
    Endpoint("GET", "/tmdb-images/t/p/{size}/{file}", "image", poster, provider="tmdb", refuse=refuse_picture),
)
