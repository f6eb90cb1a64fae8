"""Result files at addresses nobody can guess, which work for a while: with lengths, ranges, and 410 afterwards."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from longtake_sandbox.exchange import Endpoint, Exchange

if TYPE_CHECKING:
    from longtake_sandbox.faults import Fault
    from longtake_sandbox.sandbox import Box
    from longtake_sandbox.studio import Media
    from longtake_sandbox.tasks import Task

SUFFIXES = {"png": "png", "jpeg": "jpg", "mp4": "mp4"}


@dataclass(frozen=True, slots=True)
class Shared:
    """What an address stands for."""

    task: Task
    until: float


class Files:
    """All addresses that were ever given out; one that has run out is remembered as such."""

    def __init__(self) -> None:
        self._shared: dict[str, Shared] = {}

    def share(self, box: Box, task: Task, seconds: float) -> str:
        """Give out a new address for a task's result."""
        token = secrets.token_urlsafe(18)
        self._shared[token] = Shared(task, box.now() + seconds)
        suffix = SUFFIXES[box.studio.recipe(task).media_format]
        return f"{box.url}/files/{token}/{task.id.rpartition('/')[2]}.{suffix}"

    def current(self, box: Box, task: Task) -> str:
        """Return the address of a result; a new one when the last has run out."""
        if not task.link or task.link_until <= box.now():
            task.link = self.share(box, task, box.options.url_seconds)
            task.link_until = box.now() + box.options.url_seconds
        return task.link

    def find(self, url: str) -> Shared | None:
        """Return what an address of ours stands for, also when it has run out."""
        return self.get(url.partition("/files/")[2].partition("/")[0])

    def get(self, token: str) -> Shared | None:
        return self._shared.get(token)


def read_file_call(box: Box, exchange: Exchange) -> None:
    """Find the task whose file is asked for."""
    shared = box.files.get(exchange.asked.match_info["token"])
    if shared:
        exchange.about(shared.task)


async def answer_file(box: Box, exchange: Exchange) -> web.StreamResponse:
    """Send a file, or the part of it that is asked for."""
    shared = box.files.get(exchange.asked.match_info["token"])
    if shared is None:
        return refuse_file(404, 404, "There is no such file.")
    if shared.until <= box.now():
        return refuse_file(410, 410, "This address has expired.")
    media = await box.studio.make(box.studio.recipe(shared.task))
    return _part(exchange.asked, media)


def refuse_file(status: int, code: int, message: str, fault: Fault | None = None) -> web.Response:  # noqa: ARG001
    """Answer as a file store does."""
    text = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'
    return web.Response(text=text, status=status, content_type="application/xml")


def _part(request: web.Request, media: Media) -> web.Response:
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": media.etag,
        "Cache-Control": "private",
        "Content-Type": media.content_type,
    }
    size = len(media.content)
    if media.etag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers={"ETag": media.etag})
    wanted = _range(request)
    if wanted is None or request.headers.get("If-Range", media.etag) != media.etag:
        return web.Response(body=media.content, headers=headers)
    start, stop, _step = wanted.indices(size)
    if start >= stop:
        return web.Response(status=416, headers={"Content-Range": f"bytes */{size}"})
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    return web.Response(body=media.content[start:stop], status=206, headers=headers)


def _range(request: web.Request) -> slice | None:
    """Return the part that is asked for; several parts, or what is no range, count as the whole."""
    try:
        return request.http_range if "Range" in request.headers else None
    except ValueError:
        return None


ENDPOINTS = (Endpoint("GET", "/files/{token}/{name}", "files", "file", read_file_call, answer_file, refuse_file),)
