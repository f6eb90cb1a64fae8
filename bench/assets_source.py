"""A source of media in a process of its own, which counts what is fetched from it in parts.

Whole files are sent by the system itself, so that the source is never what a copy waits for.
"""

import http.client
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench import children, servers
from bench.outside import wait_until_answering

if TYPE_CHECKING:
    from aiohttp import web

PIECE = 64 * 1024


@dataclass(frozen=True)
class Source:
    """A running source; files that are put into its folder have an address at once."""

    folder: Path
    port: int

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/files/{name}"

    def fetched(self) -> tuple[int, int]:
        """Return how many requests for parts were answered since this was last asked, and with how many bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("POST", "/fetched")
            told = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return told["requests"], told["bytes"]


@contextmanager
def running_source(folder: Path) -> Iterator[Source]:
    source = Source(folder, servers.free_port())
    with children.running("bench.assets_source:serve", folder=str(folder), port=source.port) as process:
        wait_until_answering(source.fetched, process)
        yield source


def serve(folder: str, port: int) -> None:
    """Serve until somebody ends the process."""
    from aiohttp import web

    counter = Counter(Path(folder))
    application = web.Application()
    application.add_routes([web.get("/files/{name}", counter.send), web.post("/fetched", counter.tell)])
    web.run_app(application, host="127.0.0.1", port=port, print=None, access_log=None)


class Counter:
    """Sends files, and knows how much of them was sent in parts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._requests = self._bytes = 0

    async def tell(self, _request: "web.Request") -> "web.Response":
        from aiohttp import web

        told = {"requests": self._requests, "bytes": self._bytes}
        self._requests = self._bytes = 0
        return web.json_response(told)

    async def send(self, request: "web.Request") -> "web.StreamResponse":
        from aiohttp import web

        path = self._folder / request.match_info["name"]
        if "Range" not in request.headers:
            return web.FileResponse(path)
        self._requests += 1
        size = path.stat().st_size
        start, stop, _step = request.http_range.indices(size)
        headers = {"Content-Range": f"bytes {start}-{stop - 1}/{size}", "Accept-Ranges": "bytes", "ETag": '"the-same"'}
        response = web.StreamResponse(status=206, headers=headers)
        response.content_length = stop - start
        await response.prepare(request)
        await self._send_part(response, path, start, stop)
        return response

    async def _send_part(self, response: "web.StreamResponse", path: Path, start: int, stop: int) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            while start < stop:
                piece = os.pread(descriptor, min(PIECE, stop - start), start)
                await response.write(piece)
                # Only what was handed over: whoever hangs up early has not fetched the rest.
                self._bytes += len(piece)
                start += len(piece)
        finally:
            os.close(descriptor)
