"""Bangumi: its calendar, subjects and covers. It refuses clients that do not identify themselves."""

from __future__ import annotations

import hashlib
import re
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from longtake_sandbox.calls import Endpoint, Exchange, json_response
from longtake_sandbox.files import answer_picture, refuse_picture

if TYPE_CHECKING:
    from aiohttp import web

    from longtake_sandbox.faults import Fault
    from longtake_sandbox.sandbox import Sandbox
    from longtake_sandbox.titles import Title

WEEKDAYS = (
    ("Mon", "星期一", "月耀日"), ("Tue", "星期二", "火耀日"), ("Wed", "星期三", "水耀日"), ("Thu", "星期四", "木耀日"),
    ("Fri", "星期五", "金耀日"), ("Sat", "星期六", "土耀日"), ("Sun", "星期日", "日耀日"),
)  # fmt: skip
#: User-Agents of libraries, which identify no application.
LIBRARIES = {
    "python", "python-requests", "python-urllib", "python-urllib3", "python-httpx", "aiohttp", "curl", "libcurl",
    "wget", "httpie", "go-http-client", "java", "okhttp", "axios", "node", "node-fetch", "undici",
}  # fmt: skip
SIZES = {"l": (424, 600), "c": (150, 212), "m": (100, 142), "s": (75, 106), "g": (48, 48)}
WIDTHS = {"100", "200", "400", "600", "800", "1200"}
LONGEST_SIDE = 1200
#: In the calendar every eleventh title has no images, and every fifth has a reduced cover as its large one.
WITHOUT_IMAGES, REDUCED = 11, 5


def refuse(status: int, code: int, message: str, fault: Fault | None = None) -> web.Response:  # noqa: ARG001
    """Return an error in Bangumi's shape."""
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    request_id = hashlib.blake2s(message.encode(), digest_size=8).hexdigest()
    return json_response({"title": title, "description": message, "details": {}, "request_id": request_id}, status)


def names_an_application(user_agent: str) -> bool:
    """Return whether a User-Agent names anything but libraries. Text in brackets does not count."""
    products = re.sub(r"\([^)]*\)", " ", user_agent).split()
    return any(product.partition("/")[0].lower() not in LIBRARIES for product in products)


def check_caller(_sandbox: Sandbox, exchange: Exchange) -> web.Response | None:
    """Return the refusal of a call that names no application; None if the call may pass."""
    if names_an_application(exchange.request.headers.get("User-Agent", "")):
        return None
    return refuse(403, 403, "Please set a User-Agent that names your application.")


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
    if not re.fullmatch(r"[0-9]{1,12}", number):
        return refuse(400, 400, "subject id must be a number")
    title = sandbox.catalogue.title(int(number))
    if title is None:
        return refuse(404, 404, "resource can't be found in the database or has been removed")
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


async def cover(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Send a cover in one of its own sizes."""
    place = exchange.request.match_info
    return _picture(sandbox, exchange, SIZES.get(place["size"]), place["file"])


async def reduced_cover(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Send a cover in any requested size."""
    place = exchange.request.match_info
    return _picture(sandbox, exchange, _size(place["size"]), place["file"])


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


def _picture(sandbox: Sandbox, exchange: Exchange, size: tuple[int, int] | None, file: str) -> web.Response:
    title = sandbox.catalogue.title_of_cover(file)
    if size is None or title is None:
        return refuse_picture(404, 404, "404 Not Found")
    return answer_picture(exchange, title.bangumi_id, sandbox.covers.of(title.bangumi_id), size)


def _size(text: str) -> tuple[int, int] | None:
    """Parse a width, or WIDTHxHEIGHT; None if there is no such size."""
    if text in WIDTHS:
        return int(text), int(text) * 600 // 424
    sides = re.fullmatch(r"([1-9][0-9]{0,3})x([1-9][0-9]{0,3})", text)
    if sides is None or max(int(sides[1]), int(sides[2])) > LONGEST_SIDE:
        return None
    return int(sides[1]), int(sides[2])


_endpoint = partial(Endpoint, provider="bangumi", refuse=refuse, check=check_caller)
_picture_endpoint = partial(Endpoint, provider="bangumi", refuse=refuse_picture)
ENDPOINTS = (
    _endpoint("GET", "/bangumi/calendar", "calendar", calendar),
    _endpoint("GET", "/bangumi/v0/subjects/{number}", "subject", subject),
    _picture_endpoint("GET", "/bangumi-images/pic/cover/{size}/{file:.+}", "image", cover),
    _picture_endpoint("GET", "/bangumi-images/r/{size}/pic/cover/l/{file:.+}", "image", reduced_cover),
)
