"""Connections: made only to addresses that the guard has seen, over TLS that is verified."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from aiohttp import TCPConnector, ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

from longtake.errors import HostUnresolved

if TYPE_CHECKING:
    from longtake.adapters.net.guard import AddressGuard

#: How long a name's addresses are kept. They were checked when they were asked for, and are what is connected to.
NAMES_KEPT_SECONDS = 10
#: Servers close idle connections after 5 s or more often a minute; a shorter time here avoids most of the races.
IDLE_SECONDS = 15


class GuardedResolver(AbstractResolver):
    """Asks for a host's addresses and passes them on only if all of them may be connected to."""

    def __init__(self, guard: AddressGuard, resolver: AbstractResolver | None = None) -> None:
        self._guard = guard
        self._resolver = resolver or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        try:
            found = await self._resolver.resolve(host, port, family)
        except (OSError, UnicodeError):
            found = []
        if not found:
            raise HostUnresolved(f"The name {host} cannot be resolved to an address.")
        for result in found:
            self._guard.check(result["host"], host)
        return found

    async def close(self) -> None:
        await self._resolver.close()


def open_connector(
    guard: AddressGuard,
    resolver: AbstractResolver | None,
    *,
    most: int,
    most_per_host: int,
    kept: bool,
) -> TCPConnector:
    """Return a pool of connections; with `kept` False each request has one of its own."""

    def guarded_socket(address: tuple[Any, ...]) -> socket.socket:
        # The last moment: whatever came before (a cache, a literal), this is where the connection will go.
        family, kind, protocol, _name, where = address
        guard.check(where[0], where[0])
        return socket.socket(family=family, type=kind, proto=protocol)

    options: dict[str, Any] = {"force_close": True} if not kept else {"keepalive_timeout": IDLE_SECONDS}
    return TCPConnector(
        limit=most,
        limit_per_host=most_per_host,
        resolver=GuardedResolver(guard, resolver),
        ttl_dns_cache=NAMES_KEPT_SECONDS,
        # One address after the other: in a race an address that is refused would only count as one that failed.
        happy_eyeballs_delay=None,
        socket_factory=guarded_socket,
        **options,
    )
