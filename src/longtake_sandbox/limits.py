"""Rate limits of the sandbox: a sliding window for each key, exact, as a strict provider would count."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longtake_sandbox.options import Limit


class Windows:
    """The times of the calls that were let in, by key; those refused do not count."""

    def __init__(self) -> None:
        self._times: defaultdict[str, deque[float]] = defaultdict(deque)

    def admit(self, key: str, limit: Limit | None, now: float) -> bool:
        """Say whether a call is within the limit, and count it if so."""
        if limit is None:
            return True
        times = self._times[key]
        while times and times[0] <= now - limit.seconds:
            times.popleft()
        if len(times) >= limit.count:
            return False
        times.append(now)
        return True

    def wait(self, key: str, limit: Limit, now: float) -> float:
        """Return the seconds until another call is let in."""
        times = self._times[key]
        return max(times[0] + limit.seconds - now, 0.0) if len(times) >= limit.count else 0.0
