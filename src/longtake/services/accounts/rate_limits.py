"""Rate limits per user and per address: a number a minute, of which a tenth may come at once.

Counted per process.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from typing import TYPE_CHECKING

from longtake.errors import RateLimited

if TYPE_CHECKING:
    from longtake.clock import Clock

MINUTE = 60.0
#: Seconds of floating-point error that never cause a refusal.
ROUNDING = 1e-6
#: Users remembered. A forgotten user starts at zero, which only matters with more active users than this.
MOST_USERS = 50_000
TOO_MANY_REQUESTS = "You have sent too many requests."
TOO_MANY_REFUSED = "Too many tokens and keys from your address were refused."
#: One household or host has all IPv6 addresses with the same first bits.
IPV6_BITS = 64


class RateLimits:
    """Keeps one time per user: when all admitted requests would be over if spread out evenly (GCRA)."""

    def __init__(
        self, per_minute: int, clock: Clock, most_users: int = MOST_USERS, sentence: str = TOO_MANY_REQUESTS
    ) -> None:
        self._interval = MINUTE / per_minute
        self._tolerance = (max(1, per_minute // 10) - 1) * self._interval
        self._clock = clock
        self._most_users = most_users
        self._sentence = sentence
        self._spread_until: OrderedDict[str, float] = OrderedDict()

    def admit(self, user_id: str) -> None:
        """Count one request, or raise RateLimited. A refused request is not counted."""
        self.check(user_id)
        self.count(user_id)

    def check(self, user_id: str) -> None:
        """Raise RateLimited if one more request would be too many."""
        wait = self._spread_until.get(user_id, 0.0) - self._clock.monotonic() - self._tolerance
        if wait > ROUNDING:
            raise RateLimited(self._sentence, retry_after=round(wait, 3))

    def count(self, user_id: str) -> None:
        """Count one request."""
        now = self._clock.monotonic()
        self._spread_until[user_id] = max(self._spread_until.get(user_id, now), now) + self._interval
        self._spread_until.move_to_end(user_id)
        if len(self._spread_until) > self._most_users:
            self._spread_until.popitem(last=False)


def address_bucket(address: str) -> str:
    """Return the key a limit per address counts under: the IPv4 address, or the /64 network of an IPv6 address."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found), IPV6_BITS), strict=False))
