"""Files over HTTP: by ranges, with a type that we know to be true, so that nobody guesses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import Response
from starlette.responses import StreamingResponse

from longtake.adapters.storage.media_type import MEDIA_TYPES
from longtake.http.ranges import RangeNotSatisfiable, wanted_range

if TYPE_CHECKING:
    from starlette.requests import Request

DOWNLOAD_ONLY = "application/octet-stream"
#: A picture or a video has no scripts; if anything ever takes one for a page, it may load and run nothing.
POLICY = "default-src 'none'; sandbox"
BINARY = {"schema": {"type": "string", "format": "binary"}}
#: What a route that sends files can answer, for its description.
FILE_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": {"image/*": BINARY, "video/*": BINARY}},
    206: {"description": "The part of the file that was asked for.", "content": {"image/*": BINARY}},
    304: {"description": "It is still the file with this ETag."},
    416: {"description": "The range begins after the end of the file."},
}


@dataclass(frozen=True, slots=True)
class Served:
    """Bytes that our own server sends: what they are, and how a part of them is had."""

    size: int
    content_type: str | None
    etag: str
    file_name: str
    read: Callable[[int, int], AsyncIterator[bytes]]
    #: What caches may do with it; empty leaves that to them.
    cache_control: str = ""


def send_file(request: Request, served: Served) -> Response:
    """Answer with the file, a part of it, or that the caller has it already."""
    headers = _headers(served)
    if served.etag in [one.strip() for one in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers=headers)
    # A part of a file that has changed since is worth nothing.
    same = request.headers.get("if-range", served.etag) == served.etag
    try:
        part = wanted_range(request.headers.get("range") if same else None, served.size)
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


def _headers(served: Served) -> dict[str, str]:
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
