"""How often one user may ask: so many a minute, a tenth of that at once. Counted in this process."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from longtake.errors import RateLimited

if TYPE_CHECKING:
    from longtake.clock import Clock

MINUTE = 60.0
#: Sums of fractions are a little off; a microsecond is not worth a refusal.
ROUNDING = 1e-6
#: Users remembered; one who was forgotten starts anew, which only matters where more than these ask at once.
MOST_USERS = 50_000


class RateLimits:
    """Remembers for each user one time only: when all that was admitted so far would have been spread out evenly."""

    def __init__(self, per_minute: int, clock: Clock, most_users: int = MOST_USERS) -> None:
        self._interval = MINUTE / per_minute
        self._tolerance = (max(1, per_minute // 10) - 1) * self._interval
        self._clock = clock
        self._most_users = most_users
        self._spread_until: OrderedDict[str, float] = OrderedDict()

    def admit(self, user_id: str) -> None:
        """Count one request, or raise RateLimited; a refused one is not counted."""
        now = self._clock.monotonic()
        until = max(self._spread_until.get(user_id, now), now)
        wait = until - now - self._tolerance
        if wait > ROUNDING:
            raise RateLimited("You have sent too many requests.", retry_after=round(wait, 3))
        self._spread_until[user_id] = until + self._interval
        self._spread_until.move_to_end(user_id)
        if len(self._spread_until) > self._most_users:
            self._spread_until.popitem(last=False)
