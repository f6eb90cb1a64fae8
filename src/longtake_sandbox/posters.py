"""Posters and covers: JPEGs that differ at every URL.

A picture takes milliseconds to draw, and a test may fetch ten thousand. So a few pictures are drawn once and shared
by all URLs; a comment inside the file makes the bytes differ.
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

    from longtake_sandbox.calls import Exchange
    from longtake_sandbox.faults import Fault

VARIANTS = 24
DRAWN_SIZE = (424, 600)
#: More than all documented sizes of all variants.
REMEMBERED = 512
#: 1 January 2026. Unchanged pictures are older.
NEVER_CHANGED_SINCE = 1_767_225_600
START_OF_IMAGE = 2
MARKER = 2


@dataclass(slots=True)
class Cover:
    """The number of a title's picture, and the time since when it has it."""

    number: int
    since: int


class Covers:
    """The covers that were changed. All others are number 0."""

    def __init__(self) -> None:
        self._changed: dict[int, Cover] = {}

    def of(self, bangumi_id: int) -> Cover:
        """Return a title's present cover."""
        return self._changed.get(bangumi_id) or Cover(0, NEVER_CHANGED_SINCE - bangumi_id % 100_000 * 60)

    def change(self, bangumi_id: int, number: int, now: float) -> None:
        """Set another cover. Its date always moves on, even for two changes within a second."""
        before = self.of(bangumi_id)
        if before.number != number:
            self._changed[bangumi_id] = Cover(number, max(int(now), before.since + 1))


def answer_picture(exchange: Exchange, owner: int, cover: Cover, size: tuple[int, int]) -> web.Response:
    """Return the picture at a URL, or 304 if the caller has it already."""
    name = f"{exchange.path} {cover.number}"
    etag = f'"{hashlib.blake2s(name.encode(), digest_size=16).hexdigest()}"'
    headers = {
        "ETag": etag,
        "Last-Modified": formatdate(cover.since, usegmt=True),
        "Cache-Control": "public, max-age=3600",
    }
    # A fault that breaks the body needs a body.
    needs_body = exchange.fault is not None and exchange.fault.kind in AFTERWARDS
    if not needs_body and _is_known(exchange.request, etag, cover.since):
        return web.Response(status=304, headers=headers)
    headers["Content-Type"] = "image/jpeg"
    return web.Response(body=picture_file((owner + cover.number) % VARIANTS, size, name), headers=headers)


def refuse_picture(status: int, code: int, message: str, fault: Fault | None = None) -> web.Response:  # noqa: ARG001
    """Return an error as plain text, as image servers do."""
    return web.Response(text=message, status=status)


def picture_file(variant: int, size: tuple[int, int], name: str) -> bytes:
    """Return a JPEG that holds the name in a comment."""
    before, after = _encoded(variant, size)
    comment = name.encode()
    return b"".join((before, b"\xff\xfe", (len(comment) + 2).to_bytes(2, "big"), comment, after))


@lru_cache(REMEMBERED)
def _encoded(variant: int, size: tuple[int, int]) -> tuple[bytes, bytes]:
    """Return a JPEG in two parts, split after its first segment, where a comment may stand."""
    from PIL import ImageOps  # noqa: PLC0415 - loads Pillow only when needed

    from longtake_sandbox.media import encode  # noqa: PLC0415 - as above

    drawn = _drawn(variant)
    content = encode(drawn if size == drawn.size else ImageOps.fit(drawn, size), "jpeg")
    head = START_OF_IMAGE + MARKER
    end = head + int.from_bytes(content[head : head + 2], "big")
    return content[:end], content[end:]


@cache
def _drawn(variant: int) -> Image.Image:
    from longtake_sandbox.media import draw_picture  # noqa: PLC0415 - loads Pillow only when needed

    return draw_picture(f"poster {variant + 1}", DRAWN_SIZE)


def _is_known(request: web.Request, etag: str, since: int) -> bool:
    """Return whether the caller has these bytes. A date counts only without an ETag."""
    known = request.headers.get("If-None-Match")
    if known is not None:
        return known.strip() == "*" or etag in known
    try:
        return since <= parsedate_to_datetime(request.headers["If-Modified-Since"]).timestamp()
    except (KeyError, ValueError):
        return False
