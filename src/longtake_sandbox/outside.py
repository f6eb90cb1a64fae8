"""Calls that the sandbox makes itself: to loopback addresses only, whatever it is told."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

CONNECTIONS = 200


def is_loopback(url: str) -> bool:
    """Say whether an address is of this machine; names other than localhost are not even resolved."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return parts.scheme in {"http", "https"} and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False


class Caller:
    """A client that is opened with the first call, and the background work that uses it."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._work: set[asyncio.Task[None]] = set()

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=CONNECTIONS)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False)
        return self._session

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Let something go on in the background."""
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def close(self) -> None:
        """End what goes on and close the client."""
        for task in tuple(self._work):
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
