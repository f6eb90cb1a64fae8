"""The guard of outgoing requests (SSRF protection): which URLs and addresses may be connected to.

URLs are parsed in one strict way, so that the URL checked is the URL connected to. Only public addresses are connected
to, and those that a setting allows. The ranges are listed here instead of using `ipaddress.is_global`, which differs
between versions of Python and takes some private addresses wrapped in IPv6 for public ones.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urljoin

from aiohttp import TCPConnector, ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

from longtake.adapters.net.errors import AddressRefused, HostUnresolved
from longtake.settings.checks import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Address = ipaddress.IPv4Address | ipaddress.IPv6Address
    Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: IPv4 ranges without public servers.
_NOT_PUBLIC = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT; one cloud's metadata is at 100.100.100.200
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local; most clouds' metadata
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
#: All public IPv6 addresses are in this range …
_PUBLIC = ipaddress.IPv6Network("2000::/3")
#: … except these, which wrap IPv4 addresses (Teredo, 6to4) or are for other uses.
_NOT_PUBLIC_6 = tuple(
    ipaddress.IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)
#: Prefixes whose last 32 bits are the IPv4 address that the network connects to.
_WRAPPING = (ipaddress.IPv6Network("::ffff:0:0/96"), ipaddress.IPv6Network("64:ff9b::/96"))
_LOOPBACK = (ipaddress.IPv4Network("127.0.0.0/8"), ipaddress.IPv6Network("::1/128"))


class AddressGuard:
    """Refuses every address that is neither public nor allowed."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._allowed: list[Network] = []
        for word in filter(None, (one.strip() for one in allowed)):
            self._allowed += _LOOPBACK if word == LOOPBACK else [ipaddress.ip_network(word)]

    def check(self, address: str, host: str) -> None:
        """Raise AddressRefused unless the address, and the one wrapped in it, may be connected to."""
        try:
            found = _unwrapped(ipaddress.ip_address(address.partition("%")[0]))
        except ValueError:
            raise AddressRefused(f"{host} has an invalid address.") from None
        if not self._is_allowed(found) and not _is_public(found):
            known = host if host.strip("[]") == str(found) else f"{host} has the address {found}, which"
            raise AddressRefused(f"{known} is not on the public internet.")

    def _is_allowed(self, address: Address) -> bool:
        return any(address in network for network in self._allowed)


def _unwrapped(address: Address) -> Address:
    if isinstance(address, ipaddress.IPv6Address) and any(address in network for network in _WRAPPING):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC)
    return address in _PUBLIC and not any(address in network for network in _NOT_PUBLIC_6)


LONGEST_URL = 16_000
SHOWN_LENGTH = 200
LAST_PORT = 65535
DEFAULT_PORTS = {"http": 80, "https": 443}

_PARTS = re.compile(
    r"(?P<scheme>https?)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?:#.*)?", re.IGNORECASE
)
_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::(?P<port>[0-9]{1,5}))?")
# Hosts that a browser or the C library would take for an IPv4 address: 127.1, 0x7f.1, 2130706433.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")
#: Characters kept in a URL. All others are percent-encoded and nothing is decoded, so that signatures stay valid.
_AS_IT_IS = "".join(chr(code) for code in range(0x21, 0x7F))


@dataclass(frozen=True, slots=True)
class Target:
    """A URL that passed every check possible without resolving its host."""

    scheme: str
    host: str
    port: int
    url: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """Return the origin, as browsers define it. Credentials do not leave it."""
        return self.scheme, self.host, self.port


def read_url(url: str, guard: AddressGuard, params: Mapping[str, Any] | None = None) -> Target:
    """Return the target of the URL, or raise AddressRefused with the reason."""
    if len(url) > LONGEST_URL or _FORBIDDEN.search(url):
        raise AddressRefused(f"{shown_url(url)} is too long, or contains invalid characters.", hint="")
    parts = _PARTS.fullmatch(url)
    if parts is None:
        raise AddressRefused(f"{shown_url(url)} does not begin with https:// or http://.", hint="")
    authority = _AUTHORITY.fullmatch(parts["authority"])
    if authority is None:
        raise AddressRefused(
            f"{shown_url(url)} must name a host and nothing else: no user name, no other alphabets.", hint=""
        )
    scheme, host = parts["scheme"].lower(), authority["host"].lower()
    port = int(authority["port"] or DEFAULT_PORTS[scheme])
    if not 0 < port <= LAST_PORT:
        raise AddressRefused(f"{shown_url(url)} has no valid port.", hint="")
    _check_literal(host, guard)
    query = parts["query"] or ""
    if params:
        query = f"{query}{'&' if query else '?'}{urlencode(params)}"
    rest = quote((parts["path"] or "/") + query, safe=_AS_IT_IS, errors="surrogateescape")
    return Target(scheme, host, port, f"{scheme}://{host}{'' if authority['port'] is None else f':{port}'}{rest}")


def _check_literal(host: str, guard: AddressGuard) -> None:
    """Check a host that is an IP address. Every spelling but the usual one is refused."""
    if host.startswith("["):
        try:
            guard.check(str(ipaddress.IPv6Address(host[1:-1])), host)
        except ipaddress.AddressValueError:
            raise AddressRefused(f"{host} is not an IPv6 address.", hint="") from None
    elif _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        try:
            guard.check(str(ipaddress.IPv4Address(host)), host)
        except ipaddress.AddressValueError:
            raise AddressRefused(f"{host} is not an address in its usual form, such as 192.0.2.1.", hint="") from None


def redirected(current: Target, location: str, guard: AddressGuard) -> Target:
    """Return the target of a redirect, checked like any other URL."""
    if _FORBIDDEN.search(location):
        raise AddressRefused(f"{current.host} redirects to something that is not a URL.", hint="")
    try:
        return read_url(urljoin(current.url, location), guard)
    except ValueError:
        raise AddressRefused(f"{current.host} redirects to something that is not a URL.", hint="") from None


def same_origin(one: str, other: str) -> bool:
    """Return whether two URLs have the same scheme, host and port. False if either is invalid."""
    first, second = _origin(one), _origin(other)
    return first is not None and first == second


def _origin(url: str) -> tuple[str, str, int] | None:
    parts = _PARTS.fullmatch(url)
    authority = _AUTHORITY.fullmatch(parts["authority"]) if parts and not _FORBIDDEN.search(url) else None
    if parts is None or authority is None:
        return None
    scheme = parts["scheme"].lower()
    return scheme, authority["host"].lower(), int(authority["port"] or DEFAULT_PORTS[scheme])


def shown_url(url: str) -> str:
    """Return the URL for errors and logs, without user name, query and fragment, which may hold secrets."""
    parts = _PARTS.match(url)
    if parts is None:
        return "The address"
    shown = f"{parts['scheme'].lower()}://{parts['authority'].rpartition('@')[2]}{parts['path']}"
    printable = "".join(letter if letter.isprintable() else "�" for letter in shown[:SHOWN_LENGTH])
    return printable if len(shown) <= SHOWN_LENGTH else printable + "…"


#: How long resolved addresses are cached. They were checked when they were resolved.
NAMES_KEPT_SECONDS = 10
#: Servers close idle connections after 5 s or, more often, a minute. A short time here avoids most of the races.
IDLE_SECONDS = 15


class GuardedResolver(AbstractResolver):
    """Resolves a host name and returns its addresses only if all of them may be connected to."""

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
    """Return a connection pool; with `kept` False every request gets a new connection."""

    def guarded_socket(address: tuple[Any, ...]) -> socket.socket:
        # The last check: this is the address of the connection, even if it came from a cache or the URL itself.
        family, kind, protocol, _name, where = address
        guard.check(where[0], where[0])
        return socket.socket(family=family, type=kind, proto=protocol)

    options: dict[str, Any] = {"force_close": True} if not kept else {"keepalive_timeout": IDLE_SECONDS}
    return TCPConnector(
        limit=most,
        limit_per_host=most_per_host,
        resolver=GuardedResolver(guard, resolver),
        ttl_dns_cache=NAMES_KEPT_SECONDS,
        # No race between addresses: there a refused address would only count as a failed one.
        happy_eyeballs_delay=None,
        socket_factory=guarded_socket,
        **options,
    )
