"""Posters and covers: real JPEGs, a few of them drawn once, each address with bytes of its own.

Drawing one takes milliseconds, and somebody may want ten thousand: so a picture is shared by many addresses, and a
comment inside the file makes the difference.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from email.utils import formatdate, parsedate_to_datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from aiohttp import web

from longtake_sandbox.faults import AFTERWARDS

if TYPE_CHECKING:
    from PIL import Image

    from longtake_sandbox.exchange import Exchange
    from longtake_sandbox.faults import Fault

VARIANTS = 24
DRAWN_SIZE = (424, 600)
#: More than all usual sizes of all variants.
REMEMBERED = 512
#: 1 January 2026; pictures nobody has changed are older than that.
NEVER_CHANGED_SINCE = 1_767_225_600
START_OF_IMAGE = 2
MARKER = 2


@dataclass(slots=True)
class Cover:
    """Which picture a title has, and since when."""

    number: int
    since: int


class Covers:
    """The pictures that were changed; all others are number 0."""

    def __init__(self) -> None:
        self._changed: dict[int, Cover] = {}

    def of(self, bangumi_id: int) -> Cover:
        """Return what a title shows now."""
        return self._changed.get(bangumi_id) or Cover(0, NEVER_CHANGED_SINCE - bangumi_id % 100_000 * 60)

    def change(self, bangumi_id: int, number: int, now: float) -> None:
        """Show another picture; its date is new also when the last change was in the same second."""
        before = self.of(bangumi_id)
        if before.number != number:
            self._changed[bangumi_id] = Cover(number, max(int(now), before.since + 1))


def answer_picture(exchange: Exchange, owner: int, cover: Cover, size: tuple[int, int]) -> web.Response:
    """Send the picture behind an address, unless the caller has it already."""
    name = f"{exchange.path} {cover.number}"
    etag = f'"{hashlib.blake2s(name.encode(), digest_size=16).hexdigest()}"'
    headers = {
        "ETag": etag,
        "Last-Modified": formatdate(cover.since, usegmt=True),
        "Cache-Control": "public, max-age=3600",
    }
    # A fault that spoils the body needs one.
    spoilt = exchange.fault is not None and exchange.fault.kind in AFTERWARDS
    if not spoilt and _is_known(exchange.asked, etag, cover.since):
        return web.Response(status=304, headers=headers)
    headers["Content-Type"] = "image/jpeg"
    return web.Response(body=picture_file((owner + cover.number) % VARIANTS, size, name), headers=headers)


def refuse_picture(status: int, code: int, message: str, fault: Fault | None = None) -> web.Response:  # noqa: ARG001
    """Answer as a server of pictures does: in plain words."""
    return web.Response(text=message, status=status)


def picture_file(variant: int, size: tuple[int, int], name: str) -> bytes:
    """Return the bytes of a picture with a name inside."""
    before, after = _encoded(variant, size)
    comment = name.encode()
    return b"".join((before, b"\xff\xfe", (len(comment) + 2).to_bytes(2, "big"), comment, after))


@lru_cache(REMEMBERED)
def _encoded(variant: int, size: tuple[int, int]) -> tuple[bytes, bytes]:
    """Return a JPEG in two parts; between them, after the first segment, a comment may stand."""
    from PIL import ImageOps  # noqa: PLC0415 - loads Pillow only when a picture is asked for

    from longtake_sandbox.pictures import encode  # noqa: PLC0415 - as above

    drawn = _drawn(variant)
    content = encode(drawn if size == drawn.size else ImageOps.fit(drawn, size), "jpeg")
    head = START_OF_IMAGE + MARKER
    end = head + int.from_bytes(content[head : head + 2], "big")
    return content[:end], content[end:]


@cache
def _drawn(variant: int) -> Image.Image:
    from longtake_sandbox.pictures import picture  # noqa: PLC0415 - loads Pillow only when a picture is asked for

    return picture(f"poster {variant + 1}", DRAWN_SIZE)


def _is_known(request: web.Request, etag: str, since: int) -> bool:
    """Say whether the caller has these bytes; a date counts only where there is no ETag."""
    wanted = request.headers.get("If-None-Match")
    if wanted is not None:
        return wanted.strip() == "*" or etag in wanted
    try:
        return since <= parsedate_to_datetime(request.headers["If-Modified-Since"]).timestamp()
    except (KeyError, ValueError):
        return False
