"""Files over HTTP, whole or by ranges, with a content type we have verified."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import Response
from starlette.responses import StreamingResponse

from longtake.adapters.storage.keys import MEDIA_TYPES

if TYPE_CHECKING:
    from starlette.requests import Request

DOWNLOAD_ONLY = "application/octet-stream"
#: Media has no scripts. If a browser ever takes a file for a page, it may load and run nothing.
POLICY = "default-src 'none'; sandbox"
BINARY = {"schema": {"type": "string", "format": "binary"}}
#: The responses of a route that sends files, for /openapi.json.
FILE_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": {"image/*": BINARY, "video/*": BINARY}},
    206: {"description": "The part of the file that was asked for.", "content": {"image/*": BINARY}},
    304: {"description": "It is still the file with this ETag."},
    416: {"description": "The range begins after the end of the file."},
}


@dataclass(frozen=True, slots=True)
class ServedFile:
    """A file that our server sends: its properties, and how to read a part of it."""

    size: int
    content_type: str | None
    etag: str
    file_name: str
    read: Callable[[int, int], AsyncIterator[bytes]]
    #: The Cache-Control header; empty for none.
    cache_control: str = ""


def send_file(request: Request, served: ServedFile) -> Response:
    """Return a response with the file or a part of it, or 304 when the client has it already."""
    headers = _headers(served)
    if served.etag in [one.strip() for one in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers=headers)
    # A part is useless to a client that has another version of the file.
    same = request.headers.get("if-range", served.etag) == served.etag
    try:
        part = parse_range(request.headers.get("range") if same else None, served.size)
    except RangeNotSatisfiable:
        return Response(status_code=416, headers={"Content-Range": f"bytes */{served.size}", "Accept-Ranges": "bytes"})
    start, end = part or (0, served.size)
    headers["Content-Length"] = str(end - start)
    if part is not None:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{served.size}"
    status = 200 if part is None else 206
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers)
    return StreamingResponse(served.read(start, end), status_code=status, headers=headers)


def _headers(served: ServedFile) -> dict[str, str]:
    known = served.content_type in MEDIA_TYPES
    how = "inline" if known else "attachment"
    caching = {"Cache-Control": served.cache_control} if served.cache_control else {}
    return caching | {
        "Content-Type": served.content_type if known and served.content_type else DOWNLOAD_ONLY,
        "Content-Disposition": f'{how}; filename="{served.file_name}"',
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Accept-Ranges": "bytes",
        "ETag": served.etag,
    }


_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.IGNORECASE)


class RangeNotSatisfiable(Exception):
    """The range begins after the end of the file."""


def parse_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return start and end (exclusive) of the requested part; None for the whole file.

    Anything but a single range of bytes (several ranges, other units, nonsense) gets the whole file, which HTTP always
    allows.
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or match[1] == match[2] == "":
        return None
    first, last = match[1], match[2]
    if first == "":
        start, end = max(size - int(last), 0), size
    else:
        start, end = int(first), size if last == "" else min(int(last) + 1, size)
        if last and int(last) < start:
            return None
    if start >= end:
        raise RangeNotSatisfiable
    return start, end
