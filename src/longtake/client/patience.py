"""When a call that failed is worth repeating, and after how long."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from longtake.client.failures import ServerUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtake.client.failures import LongtakeApiError

SHORTEST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
FIRST_IN_WORK_SECONDS = 1.0
ASK_LATER = {429, 503}


class Patience:
    """How long one call is repeated: pauses double and vary, and together they end after so many seconds."""

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
        """Begin anew, after something went well."""
        self._attempts = 0
        self._sent = False
        self._give_up_at = self._monotonic() + self._seconds

    def pause(self, error: LongtakeApiError, *, repeatable: bool) -> float:
        """Return how long to wait before the next attempt; raises the error when there is to be none."""
        wanted = self._wanted(error, repeatable=repeatable)
        if isinstance(error, ServerUnreachable):
            # An attempt that never left says nothing about those before it.
            self._sent = error.sent = self._sent or error.sent
        if wanted is None or self._monotonic() + wanted > self._give_up_at:
            raise error
        self._attempts += 1
        return wanted

    def _wanted(self, error: LongtakeApiError, *, repeatable: bool) -> float | None:
        usual = min(SHORTEST_PAUSE * 2.0**self._attempts, LONGEST_PAUSE) * (0.5 + self._chance())
        if isinstance(error, ServerUnreachable):
            return usual if repeatable or not error.sent else None
        if error.status in ASK_LATER and error.retry_after is not None and repeatable:
            # Never sooner than wanted; not all at the same moment either.
            return error.retry_after + usual
        if error.code == "IDEMPOTENCY_KEY_IN_USE" and repeatable:
            # Our own first attempt, whose answer was lost, is not finished.
            return FIRST_IN_WORK_SECONDS
        return None
