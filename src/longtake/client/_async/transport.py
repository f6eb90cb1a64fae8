"""HTTP with aiohttp, for programs with an event loop."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import aiohttp

from longtake.client.errors import ServerUnreachable
from longtake.client.wire import CONNECT_SECONDS, Reply, Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class AsyncResponse:
    """An answer whose body is not read yet; header names are in lower case."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        with _unreachable():
            async for piece in self._response.content.iter_any():
                yield piece

    async def reply(self) -> Reply:
        with _unreachable():
            return Reply(self.status, self.headers, await self._response.read())


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
        async with self.open(request) as opened:
            return await opened.reply()

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
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
