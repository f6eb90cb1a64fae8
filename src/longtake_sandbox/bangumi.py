"""Bangumi: the calendar of what is on air, subjects, and covers. It answers only those who say who they are."""

from __future__ import annotations

import hashlib
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from longtake_sandbox.exchange import Endpoint, Exchange, json_response, read_address
from longtake_sandbox.posters import answer_picture, refuse_picture

if TYPE_CHECKING:
    from aiohttp import web

    from longtake_sandbox.faults import Fault
    from longtake_sandbox.sandbox import Box
    from longtake_sandbox.titles import Title

WEEKDAYS = (
    ("Mon", "星期一", "月耀日"), ("Tue", "星期二", "火耀日"), ("Wed", "星期三", "水耀日"), ("Thu", "星期四", "木耀日"),
    ("Fri", "星期五", "金耀日"), ("Sat", "星期六", "土耀日"), ("Sun", "星期日", "日耀日"),
)  # fmt: skip
#: Names of programs that stand for no application.
LIBRARIES = {
    "python", "python-requests", "python-urllib", "python-urllib3", "python-httpx", "aiohttp", "curl", "libcurl",
    "wget", "httpie", "go-http-client", "java", "okhttp", "axios", "node", "node-fetch", "undici",
}  # fmt: skip
SIZES = {"l": (424, 600), "c": (150, 212), "m": (100, 142), "s": (75, 106), "g": (48, 48)}
WIDTHS = {"100", "200", "400", "600", "800", "1200"}
LONGEST_SIDE = 1200
#: Of the titles in the calendar every eleventh has no images, and every fifth a reduced cover for its large one.
WITHOUT_IMAGES, REDUCED = 11, 5


def refuse(status: int, code: int, message: str, fault: Fault | None = None) -> web.Response:  # noqa: ARG001
    """Answer with an error in Bangumi's shape."""
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    request_id = hashlib.blake2s(message.encode(), digest_size=8).hexdigest()
    return json_response({"title": title, "description": message, "details": {}, "request_id": request_id}, status)


def names_an_application(user_agent: str) -> bool:
    """Say whether anything but libraries stands in a User-Agent; what is in brackets does not count."""
    products = re.sub(r"\([^)]*\)", " ", user_agent).split()
    return any(product.partition("/")[0].lower() not in LIBRARIES for product in products)


def trouble_with_caller(exchange: Exchange) -> web.Response | None:
    """Refuse a call of nobody in particular."""
    if names_an_application(exchange.asked.headers.get("User-Agent", "")):
        return None
    return refuse(403, 403, "Please set a User-Agent that names your application.")


async def calendar(box: Box, exchange: Exchange) -> web.StreamResponse:
    """List the newest titles by the day of the week on which they are shown."""
    if trouble := trouble_with_caller(exchange):
        return trouble
    days: list[list[dict[str, Any]]] = [[] for _ in WEEKDAYS]
    for number, title in enumerate(box.catalogue.calendar):
        days[title.air_date.weekday()].append(_item(box, title, number))
    return json_response([
        {"weekday": {"en": en, "cn": cn, "ja": ja, "id": number}, "items": items}
        for number, ((en, cn, ja), items) in enumerate(zip(WEEKDAYS, days, strict=True), 1)
    ])  # fmt: skip


async def subject(box: Box, exchange: Exchange) -> web.StreamResponse:
    """Tell all about a title."""
    if trouble := trouble_with_caller(exchange):
        return trouble
    number = exchange.asked.match_info["number"]
    if not re.fullmatch(r"[0-9]{1,12}", number):
        return refuse(400, 400, "subject id must be a number")
    title = box.catalogue.title(int(number))
    if title is None:
        return refuse(404, 404, "resource can't be found in the database or has been removed")
    return json_response({
        "id": title.bangumi_id, "type": 2, "name": title.names.ja, "name_cn": title.names.zh, "summary": "",
        "nsfw": False, "locked": False, "date": title.air_date.isoformat(), "platform": "TV",
        "images": {
            "large": cover_url(box, title), "common": _reduced_url(box, title, "400"),
            "medium": _reduced_url(box, title, "800"), "small": _reduced_url(box, title, "200"),
            "grid": _reduced_url(box, title, "100"),
        },
        "infobox": [
            {"key": "中文名", "value": title.names.zh}, {"key": "别名", "value": [{"v": title.names.en}]},
        ],
        "volumes": 0, "eps": 12, "total_episodes": 12, "tags": [],
    })  # fmt: skip


async def cover(box: Box, exchange: Exchange) -> web.StreamResponse:
    """Send a cover in one of its own sizes."""
    place = exchange.asked.match_info
    return _picture(box, exchange, SIZES.get(place["size"]), place["file"])


async def reduced_cover(box: Box, exchange: Exchange) -> web.StreamResponse:
    """Send a cover in a size that is asked for."""
    place = exchange.asked.match_info
    return _picture(box, exchange, _size(place["size"]), place["file"])


def cover_url(box: Box, title: Title, size: str = "l") -> str:
    """Return the address of a cover."""
    return f"{box.url}/bangumi-images/pic/cover/{size}/{title.cover_file}"


def _reduced_url(box: Box, title: Title, size: str) -> str:
    return f"{box.url}/bangumi-images/r/{size}/pic/cover/l/{title.cover_file}"


def _item(box: Box, title: Title, number: int) -> dict[str, Any]:
    large = _reduced_url(box, title, "400") if number % REDUCED == REDUCED - 1 else cover_url(box, title)
    images = {
        "large": large, "common": cover_url(box, title, "c"), "medium": cover_url(box, title, "m"),
        "small": cover_url(box, title, "s"), "grid": cover_url(box, title, "g"),
    }  # fmt: skip
    return {
        "id": title.bangumi_id, "url": f"http://bgm.tv/subject/{title.bangumi_id}", "type": 2,
        "name": title.names.ja, "name_cn": title.names.zh, "summary": "", "air_date": title.air_date.isoformat(),
        "air_weekday": title.air_date.isoweekday(),
        "images": None if number % WITHOUT_IMAGES == WITHOUT_IMAGES - 1 else images,
    }  # fmt: skip


def _picture(box: Box, exchange: Exchange, size: tuple[int, int] | None, file: str) -> web.Response:
    title = box.catalogue.title_of_cover(file)
    if size is None or title is None:
        return refuse_picture(404, 404, "404 Not Found")
    return answer_picture(exchange, title.bangumi_id, box.covers.of(title.bangumi_id), size)


def _size(text: str) -> tuple[int, int] | None:
    """Read a width, or WIDTHxHEIGHT; None if there is no such size."""
    if text in WIDTHS:
        return int(text), int(text) * 600 // 424
    sides = re.fullmatch(r"([1-9][0-9]{0,3})x([1-9][0-9]{0,3})", text)
    if sides is None or max(int(sides[1]), int(sides[2])) > LONGEST_SIDE:
        return None
    return int(sides[1]), int(sides[2])


ENDPOINTS = (
    Endpoint("GET", "/bangumi/calendar", "bangumi", "calendar", read_address, calendar, refuse),
    Endpoint("GET", "/bangumi/v0/subjects/{number}", "bangumi", "subject", read_address, subject, refuse),
    Endpoint(
        "GET", "/bangumi-images/pic/cover/{size}/{file:.+}", "bangumi", "image", read_address, cover, refuse_picture
    ),
    Endpoint(
        "GET", "/bangumi-images/r/{size}/pic/cover/l/{file:.+}", "bangumi", "image", read_address, reduced_cover,
        refuse_picture,
    ),
)  # fmt: skip
