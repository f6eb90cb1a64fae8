"""Decides whether a failed call is repeated, and after how long."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from longtake.client.errors import ServerUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtake.client.errors import LongtakeApiError

SHORTEST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
FIRST_IN_WORK_SECONDS = 1.0
ASK_LATER = {429, 503}


class RetryBudget:
    """The time one call may spend on repeats: pauses double, with jitter, until the budget of seconds is used up."""

    def __init__(
        self,
        seconds: float,
        chance: Callable[[], float] = random.random,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._chance = chance
        self._monotonic = monotonic
        self.renew()

    def renew(self) -> None:
        """Start over after a success."""
        self._attempts = 0
        self._sent = False
        self._give_up_at = self._monotonic() + self._seconds

    def pause(self, error: LongtakeApiError, *, repeatable: bool) -> float:
        """Return the seconds to wait before the next attempt; raise the error if there is no next attempt."""
        seconds = self._next_pause(error, repeatable=repeatable)
        if isinstance(error, ServerUnreachable):
            # An attempt that was not sent says nothing about earlier ones.
            self._sent = error.sent = self._sent or error.sent
        if seconds is None or self._monotonic() + seconds > self._give_up_at:
            raise error
        self._attempts += 1
        return seconds

    def _next_pause(self, error: LongtakeApiError, *, repeatable: bool) -> float | None:
        usual = min(SHORTEST_PAUSE * 2.0**self._attempts, LONGEST_PAUSE) * (0.5 + self._chance())
        if isinstance(error, ServerUnreachable):
            return usual if repeatable or not error.sent else None
        if error.status in ASK_LATER and error.retry_after is not None and repeatable:
            # Never earlier than the server asked for, and with jitter so that clients do not come back together.
            return error.retry_after + usual
        if error.code == "IDEMPOTENCY_KEY_IN_USE" and repeatable:
            # Our first attempt, whose answer was lost, is still running.
            return FIRST_IN_WORK_SECONDS
        return None
