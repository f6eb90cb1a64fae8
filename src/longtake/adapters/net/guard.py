"""Which addresses may be connected to: those of the public internet, and those a setting names.

The ranges are written down here instead of asking `ipaddress.is_global`, which differs between versions of Python
and takes some ways of wrapping a private address for public ones.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from longtake.errors import AddressRefused
from longtake.settings.addresses import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Sequence

    Address = ipaddress.IPv4Address | ipaddress.IPv6Address
    Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: IPv4 addresses that are not somebody's public server, whatever answers there.
_NOT_PUBLIC = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade translation; one cloud's metadata is at 100.100.100.200
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
#: All public IPv6 addresses are in here …
_PUBLIC = ipaddress.IPv6Network("2000::/3")
#: … except these, which wrap IPv4 addresses (Teredo, 6to4) or are for other uses.
_NOT_PUBLIC_6 = tuple(
    ipaddress.IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)
#: Prefixes behind which the last 32 bits are an IPv4 address that the network really connects to.
_WRAPPING = (ipaddress.IPv6Network("::ffff:0:0/96"), ipaddress.IPv6Network("64:ff9b::/96"))
_LOOPBACK = (ipaddress.IPv4Network("127.0.0.0/8"), ipaddress.IPv6Network("::1/128"))


class AddressGuard:
    """Says no to every address that is neither public nor allowed."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._allowed: list[Network] = []
        for word in filter(None, (one.strip() for one in allowed)):
            self._allowed += _LOOPBACK if word == LOOPBACK else [ipaddress.ip_network(word)]

    def check(self, address: str, host: str) -> None:
        """Raise AddressRefused unless the address, and the one wrapped in it, may be connected to."""
        try:
            found = _unwrapped(ipaddress.ip_address(address.partition("%")[0]))
        except ValueError:
            raise AddressRefused(f"{host} has an address that cannot be understood.") from None
        if not self._is_allowed(found) and not _is_public(found):
            raise AddressRefused(f"{host} is at {found}, which is not an address of the public internet.")

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
