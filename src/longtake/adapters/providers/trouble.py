"""Trouble with a provider: how long to wait, and what the task, the lane and the operators learn of it.

Trouble never fails a task. It passes by itself, or an operator fixes it. A task that waits too long ends at its
deadline.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from longtake.engine.jobs import Job
from longtake.engine.kinds import Exponential
from longtake.engine.outcomes import KEEP, Snooze
from longtake.errors import (
    LongtakeError,
    ProviderBusy,
    ProviderOutOfCredits,
    ProviderQuotaSpent,
    ProviderUnauthorized,
    ProviderUnavailable,
)

#: Failures in a row, of one provider in one process, after which its lane holds back for all.
BREAKER_LIMIT = 5
BREAKER_SECONDS = 20.0
BACK_OFF = Exponential(first=4.0, most=60.0)
BUSY_SECONDS = 10.0
#: A paused lane starts no jobs. Jobs that were already running try again after this time.
PAUSED_SECONDS = 60.0
NO_KEY_SECONDS = 30.0
#: Errors that do not pass by themselves, or not today: operators get an alert.
FOR_PEOPLE = (ProviderQuotaSpent, ProviderUnauthorized, ProviderOutOfCredits)


@dataclass(frozen=True, slots=True)
class Trouble:
    """What went wrong, for the task's row, and what to do with the lane."""

    code: str
    message: str
    #: Lanes to pause until an operator resumes them: "submit" or "all".
    pause: str | None = None
    #: Raise an alert, one for the provider instead of one for each task.
    alert: bool = False
    #: The number of the next try, and the seconds until then; None if nothing was tried.
    attempt: int | None = None
    seconds: float = 0.0


@dataclass
class Breaker:
    """Counts failures in a row, so that a provider that comes back does not meet a storm of requests."""

    failures: dict[str, int] = field(default_factory=dict)

    def failed(self, provider: str) -> bool:
        """Count a failure; return whether to slow the lane down."""
        self.failures[provider] = self.failures.get(provider, 0) + 1
        return self.failures[provider] >= BREAKER_LIMIT

    def answered(self, provider: str) -> None:
        """Reset the count after any answer."""
        self.failures.pop(provider, None)


def wait_out(error: LongtakeError, job: Job, provider: str, breaker: Breaker, source: random.Random) -> Snooze:
    """Return the snooze after a provider's error that is not about the task itself."""
    seen = (job.memo or {}).get("trouble", 0)
    slow, pause = False, None
    match error:
        case ProviderBusy(retry_after=float() | int() as seconds):
            slow = True
        case ProviderBusy():
            seconds, slow = BUSY_SECONDS * source.uniform(0.8, 1.2), True
        case ProviderQuotaSpent(reset=seconds):
            slow = True
        case ProviderUnauthorized():
            seconds, pause = PAUSED_SECONDS, "all"
        case ProviderOutOfCredits():
            seconds, pause = PAUSED_SECONDS, "submit"
        case ProviderUnavailable() if breaker.failed(provider):
            seconds, slow = BREAKER_SECONDS * source.uniform(0.8, 1.2), True
        case _:
            seconds = BACK_OFF.delay(seen + 1, source)
    # `seen` failures and this one are over; the next try has the number after those.
    again = {"attempt": seen + 2, "seconds": seconds}
    trouble = Trouble(error.code, error.message, pause, alert=isinstance(error, FOR_PEOPLE), **again)
    memo = {**(job.memo or {}), "trouble": seen + 1}
    return Snooze(seconds, memo=memo, slow_lane=slow, data=trouble, code=error.code, message=error.message)


def without_key(provider: str) -> Snooze:
    """Return the snooze in a process without a key for the provider.

    No lane is paused: other processes may have a key.
    """
    missing = Trouble("PROVIDER_NOT_CONFIGURED", f"No key is configured for {provider} in this process.")
    return Snooze(NO_KEY_SECONDS, data=missing, code=missing.code, message=missing.message)


def quiet_memo(job: Job) -> Any:
    """Return the memo after an answer, which resets the count of failures in a row."""
    return None if job.memo else KEEP


#: The sentences for users. URLs, keys and quotas are for operators, who see the alert and the task's row.
TROUBLE = {
    "PROVIDER_BUSY": "The provider takes no more requests for now.",
    "PROVIDER_FULL": "The provider works on as many tasks as it takes at once.",
    "PROVIDER_QUOTA_SPENT": "The provider takes nothing more today.",
    "SUBMIT_UNKNOWN": "The provider's answer was lost; the task costs nothing unless it is found again.",
    "TASK_NOT_FOUND": "The provider does not know the task; it is asked once more.",
}
OTHER_TROUBLE = "The provider cannot be used right now; the task goes on by itself."
OUR_TROUBLE = "Something went wrong on our side; the task goes on by itself."


def trouble_words(code: str) -> str:
    """Return the sentence for users; never the provider's own text, which may contain URLs."""
    return TROUBLE.get(code, OTHER_TROUBLE if code.startswith("PROVIDER_") else OUR_TROUBLE)
