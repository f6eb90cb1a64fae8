"""How many deliveries to one endpoint, and of one user, are under way in this process.

A receiver that is slow or silent must not hold up all others, nor may somebody who has many of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longtake.clock import Clock

MOST_AT_ONCE = 8
#: To an endpoint that left the last try without an answer: its owner's others need room beside it.
MOST_TO_SILENT = 2
MOST_OF_A_USER = 8
#: The endpoints longest known to be silent are forgotten beyond this, which only gives them their full share once.
SILENT_REMEMBERED = 10_000
SHORTEST_SECONDS = 0.5
LONGEST_SECONDS = 60.0
#: How much of what is known of a receiver's speed the last delivery decides.
NEWEST_PART = 0.2
#: Nobody is so fast that it would matter.
LEAST_PACE = 0.01


@dataclass(slots=True)
class _Crowd:
    """The deliveries to one endpoint, or all of one user."""

    inside: int = 0
    #: About how many wait outside, and when that was reckoned. Who they are is not kept: many go on elsewhere.
    outside: float = 0.0
    reckoned_at: float = 0.0
    #: How long a delivery takes; a second as long as nothing is known.
    pace: float = 1.0


class Line:
    """Lets some in, and tells the others when to come again: about when those before them will be through."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: Those who have somebody inside, and nobody else.
        self._endpoints: dict[str, _Crowd] = {}
        self._users: dict[str, _Crowd] = {}
        #: Endpoints whose last try had no answer, in the order in which that was first seen.
        self._silent: dict[str, None] = {}

    def enter(self, endpoint_id: str, user_id: str) -> float | None:
        """Return None when a delivery may begin, which `leave` then ends; else for how many seconds to wait."""
        endpoint = self._endpoints.get(endpoint_id) or _Crowd()
        user = self._users.get(user_id) or _Crowd()
        most = MOST_TO_SILENT if endpoint_id in self._silent else MOST_AT_ONCE
        limits = ((endpoint, most), (user, MOST_OF_A_USER))
        waits = [self._wait(crowd, limit) for crowd, limit in limits if crowd.inside >= limit]
        if waits:
            return max(waits)
        endpoint.inside += 1
        user.inside += 1
        self._endpoints[endpoint_id], self._users[user_id] = endpoint, user
        return None

    def leave(self, endpoint_id: str, user_id: str, seconds: float, *, answered: bool = True) -> None:
        """Make room for another, after so many seconds."""
        for crowds, name in ((self._endpoints, endpoint_id), (self._users, user_id)):
            crowd = crowds[name]
            crowd.inside -= 1
            crowd.pace += (max(seconds, LEAST_PACE) - crowd.pace) * NEWEST_PART
            if not crowd.inside:
                del crowds[name]
        if answered:
            self._silent.pop(endpoint_id, None)
        else:
            self._silent[endpoint_id] = None
            if len(self._silent) > SILENT_REMEMBERED:
                del self._silent[next(iter(self._silent))]

    def _wait(self, crowd: _Crowd, most: int) -> float:
        now, each = self._clock.monotonic(), crowd.pace / most
        # Those whose time has come have begun, here or elsewhere, or are back and count again.
        left = max(crowd.outside - (now - crowd.reckoned_at) / each, 0.0)
        crowd.outside, crowd.reckoned_at = min(left + 1, LONGEST_SECONDS / each), now
        return max(crowd.outside * each, SHORTEST_SECONDS)
