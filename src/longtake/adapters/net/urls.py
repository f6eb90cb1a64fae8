"""URLs from outside, parsed in one strict way, so that the URL checked is the URL connected to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urljoin

from longtake.adapters.net.errors import AddressRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from longtake.adapters.net.guard import AddressGuard

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
            guard.check(str(IPv6Address(host[1:-1])), host)
        except AddressValueError:
            raise AddressRefused(f"{host} is not an IPv6 address.", hint="") from None
    elif _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        try:
            guard.check(str(IPv4Address(host)), host)
        except AddressValueError:
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
