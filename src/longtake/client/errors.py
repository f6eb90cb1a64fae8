"""Errors that a call can raise, and which of them are worth another attempt."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SHORTEST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
FIRST_IN_WORK_SECONDS = 1.0
ASK_LATER = {429, 503}


class LongtakeApiError(Exception):
    """The server refused the request: status, stable `code`, sentence, hint, and the request's id in its log."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: str = "",
        hint: str = "",
        request_id: str = "",
        retry_after: float | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{message} [{code}]" if code else message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint
        self.request_id = request_id
        #: Seconds to wait before the next attempt; None when repeating would not help.
        self.retry_after = retry_after
        #: All members of the problem, such as a balance or a limit.
        self.facts = dict(facts or {})


class ServerUnreachable(LongtakeApiError):
    """No answer arrived. `sent` tells whether the request may have reached the server."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message, code="SERVER_UNREACHABLE", hint="Check the address, and that the server is running.")
        self.sent = sent


class DownloadFailed(LongtakeApiError):
    """The file is not available, or the bytes received are not the ones announced."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="DOWNLOAD_FAILED", hint="Get the task again: its answer has a new link.")


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
