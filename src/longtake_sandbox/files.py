"""Result files at unguessable URLs that expire: with lengths, ranges and ETags, and 410 afterwards."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from longtake_sandbox.exchange import Endpoint, Exchange

if TYPE_CHECKING:
    from longtake_sandbox.faults import Fault
    from longtake_sandbox.sandbox import Sandbox
    from longtake_sandbox.studio import Media
    from longtake_sandbox.tasks import Task

SUFFIXES = {"png": "png", "jpeg": "jpg", "mp4": "mp4"}


@dataclass(frozen=True, slots=True)
class SharedFile:
    """The task whose result a URL serves, and when the URL expires."""

    task: Task
    until: float


class Files:
    """All URLs that were ever given out, expired ones included."""

    def __init__(self) -> None:
        self._shared: dict[str, SharedFile] = {}

    def share(self, sandbox: Sandbox, task: Task, seconds: float) -> str:
        """Return a new URL for a task's result."""
        token = secrets.token_urlsafe(18)
        self._shared[token] = SharedFile(task, sandbox.now() + seconds)
        suffix = SUFFIXES[sandbox.studio.recipe(task).media_format]
        return f"{sandbox.url}/files/{token}/{task.id.rpartition('/')[2]}.{suffix}"

    def current(self, sandbox: Sandbox, task: Task) -> str:
        """Return the present URL of a result; a new one if the last has expired."""
        if not task.link or task.link_until <= sandbox.now():
            task.link = self.share(sandbox, task, sandbox.options.url_seconds)
            task.link_until = sandbox.now() + sandbox.options.url_seconds
        return task.link

    def find(self, url: str) -> SharedFile | None:
        """Return the file behind one of our URLs, even if the URL has expired."""
        return self.get(url.partition("/files/")[2].partition("/")[0])

    def get(self, token: str) -> SharedFile | None:
        return self._shared.get(token)


def read_file_call(sandbox: Sandbox, exchange: Exchange) -> None:
    """Note the task whose file is requested."""
    shared = sandbox.files.get(exchange.request.match_info["token"])
    if shared:
        exchange.about(shared.task)


async def answer_file(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Send a file, or the requested range of it."""
    shared = sandbox.files.get(exchange.request.match_info["token"])
    if shared is None:
        return refuse_file(404, 404, "There is no such file.")
    if shared.until <= sandbox.now():
        return refuse_file(410, 410, "This address has expired.")
    media = await sandbox.studio.make(sandbox.studio.recipe(shared.task))
    return _file_response(exchange.request, media)


def refuse_file(status: int, code: int, message: str, fault: Fault | None = None) -> web.Response:  # noqa: ARG001
    """Return an error in the XML of a file store."""
    text = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'
    return web.Response(text=text, status=status, content_type="application/xml")


def _file_response(request: web.Request, media: Media) -> web.Response:
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": media.etag,
        "Cache-Control": "private",
        "Content-Type": media.content_type,
    }
    size = len(media.content)
    if media.etag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers={"ETag": media.etag})
    part = _range(request)
    if part is None or request.headers.get("If-Range", media.etag) != media.etag:
        return web.Response(body=media.content, headers=headers)
    start, stop, _step = part.indices(size)
    if start >= stop:
        return web.Response(status=416, headers={"Content-Range": f"bytes */{size}"})
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    return web.Response(body=media.content[start:stop], status=206, headers=headers)


def _range(request: web.Request) -> slice | None:
    """Return the requested range. None for several ranges or an invalid one: then the whole file is sent."""
    try:
        return request.http_range if "Range" in request.headers else None
    except ValueError:
        return None


ENDPOINTS = (Endpoint("GET", "/files/{token}/{name}", "files", "file", read_file_call, answer_file, refuse_file),)
