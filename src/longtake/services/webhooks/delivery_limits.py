"""Limits on how many deliveries to one endpoint, and of one user, run at once in this process.

A slow or silent receiver must not hold up the others, and neither must a user who has many of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longtake.clock import Clock

MOST_AT_ONCE = 8
#: For an endpoint that did not answer the last attempt: its owner's other endpoints need room beside it.
MOST_TO_SILENT = 2
MOST_OF_A_USER = 8
#: Beyond this many, the endpoints silent for longest are forgotten, which gives each its full share once.
SILENT_REMEMBERED = 10_000
SHORTEST_SECONDS = 0.5
LONGEST_SECONDS = 60.0
#: Weight of the newest delivery in the moving average of a receiver's speed.
NEWEST_PART = 0.2
#: Receivers faster than this count as this fast.
LEAST_PACE = 0.01


@dataclass(slots=True)
class _Load:
    """The deliveries to one endpoint, or all deliveries of one user."""

    running: int = 0
    #: About how many are waiting, and when that was estimated. Which ones is not kept: many run in other processes.
    waiting: float = 0.0
    estimated_at: float = 0.0
    #: Seconds one delivery takes, as a moving average.
    pace: float = 1.0


class DeliveryLimits:
    """Admits deliveries, and tells those it turns away when the ones before them will be done."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: Only endpoints and users with a running delivery.
        self._endpoints: dict[str, _Load] = {}
        self._users: dict[str, _Load] = {}
        #: Endpoints that did not answer the last attempt, in the order in which they fell silent.
        self._silent: dict[str, None] = {}

    def enter(self, endpoint_id: str, user_id: str) -> float | None:
        """Return None when a delivery may start, which `leave` must end; else how many seconds to wait."""
        endpoint = self._endpoints.get(endpoint_id) or _Load()
        user = self._users.get(user_id) or _Load()
        most = MOST_TO_SILENT if endpoint_id in self._silent else MOST_AT_ONCE
        limits = ((endpoint, most), (user, MOST_OF_A_USER))
        waits = [self._wait(load, limit) for load, limit in limits if load.running >= limit]
        if waits:
            return max(waits)
        endpoint.running += 1
        user.running += 1
        self._endpoints[endpoint_id], self._users[user_id] = endpoint, user
        return None

    def leave(self, endpoint_id: str, user_id: str, seconds: float, *, answered: bool = True) -> None:
        """End a delivery that took `seconds`."""
        for loads, name in ((self._endpoints, endpoint_id), (self._users, user_id)):
            load = loads[name]
            load.running -= 1
            load.pace += (max(seconds, LEAST_PACE) - load.pace) * NEWEST_PART
            if not load.running:
                del loads[name]
        if answered:
            self._silent.pop(endpoint_id, None)
        else:
            self._silent[endpoint_id] = None
            if len(self._silent) > SILENT_REMEMBERED:
                del self._silent[next(iter(self._silent))]

    def _wait(self, load: _Load, most: int) -> float:
        now, each = self._clock.monotonic(), load.pace / most
        # Deliveries whose wait is over have started, here or elsewhere, or are back and count again.
        left = max(load.waiting - (now - load.estimated_at) / each, 0.0)
        load.waiting, load.estimated_at = min(left + 1, LONGEST_SECONDS / each), now
        return max(load.waiting * each, SHORTEST_SECONDS)
