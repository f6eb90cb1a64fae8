"""HTTP with aiohttp, for programs with an event loop."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp

from longtake.client.errors import ServerUnreachable
from longtake.client.wire import CONNECT_SECONDS, Reply, Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@dataclass
class AsyncResponse:
    """An answer whose body is not read yet."""

    response: aiohttp.ClientResponse

    @property
    def status(self) -> int:
        return self.response.status

    def header(self, name: str) -> str | None:
        """Return a header's value."""
        return self.response.headers.get(name)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        with _unreachable():
            async for piece in self.response.content.iter_any():
                yield piece

    async def reply(self) -> Reply:
        """Read the whole body."""
        headers = {name.lower(): value for name, value in self.response.headers.items()}
        with _unreachable():
            return Reply(self.response.status, headers, await self.response.read())


class AsyncTransport:
    """A pool of connections; belongs to the event loop that used it first."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    @contextlib.asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[AsyncResponse]:
        """Send a request; yield the answer as soon as it begins."""
        if self._session is None:
            # As in the other client: files arrive as stored, and a token never follows a redirect.
            self._session = aiohttp.ClientSession(headers={"Accept-Encoding": "identity"})
        connect = min(request.seconds, CONNECT_SECONDS)
        limit = aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=request.seconds)
        with _unreachable():
            response = await self._session.request(
                request.method,
                request.url,
                data=request.body,
                headers=request.headers,
                timeout=limit,
                allow_redirects=False,
            )
        try:
            yield AsyncResponse(response)
        finally:
            response.close()

    async def send(self, request: Request) -> Reply:
        """Send a request; return the complete answer."""
        async with self.open(request) as opened:
            return await opened.reply()

    async def pause(self, seconds: float) -> None:
        """Sleep."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


@contextlib.contextmanager
def _unreachable() -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, TimeoutError) as error:
        # Without a connection nothing was sent, however long it was tried.
        sent = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
        late = isinstance(error, TimeoutError)
        reason = "The server did not answer in time." if late else f"The server cannot be reached: {error}."
        raise ServerUnreachable(reason, sent=sent) from error
