"""Trouble with a provider: how long to wait, and what the task, the lane and people hear of it.

None of it fails a task. A task that waits too long ends at its deadline; until then trouble passes, or somebody mends
it.
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
#: A lane that is paused starts nothing; jobs in hand at that moment look again after this.
PAUSED_SECONDS = 60.0
NO_KEY_SECONDS = 30.0
#: These do not pass by themselves, or not today: somebody should know.
FOR_PEOPLE = (ProviderQuotaSpent, ProviderUnauthorized, ProviderOutOfCredits)


@dataclass(frozen=True, slots=True)
class Trouble:
    """What went wrong, for the task's row; and what must happen to the lane besides."""

    code: str
    message: str
    #: Lanes to pause until a person has mended it: "submit" or "all".
    pause: str | None = None
    #: People are told, once for the provider and not for each task.
    alert: bool = False
    #: The number of the try that it waits for, and in how many seconds that is; None when nothing was tried.
    attempt: int | None = None
    seconds: float = 0.0


@dataclass
class Breaker:
    """Counts failures in a row. One provider's trouble must not become a storm of requests when it comes back."""

    failures: dict[str, int] = field(default_factory=dict)

    def failed(self, provider: str) -> bool:
        """Note a failure; say whether it is time to hold the lane back."""
        self.failures[provider] = self.failures.get(provider, 0) + 1
        return self.failures[provider] >= BREAKER_LIMIT

    def answered(self, provider: str) -> None:
        """Note an answer, whatever it says."""
        self.failures.pop(provider, None)


def wait_out(error: LongtakeError, job: Job, provider: str, breaker: Breaker, source: random.Random) -> Snooze:
    """Return how to go on after a provider's error that is not about the task itself."""
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
    # The first try and those that failed since, this one among them, are over.
    again = {"attempt": seen + 2, "seconds": seconds}
    trouble = Trouble(error.code, error.message, pause, alert=isinstance(error, FOR_PEOPLE), **again)
    memo = {**(job.memo or {}), "trouble": seen + 1}
    return Snooze(seconds, memo=memo, slow_lane=slow, data=trouble, code=error.code, message=error.message)


def without_key(provider: str) -> Snooze:
    """Return how to go on in a process that has no key for the provider. Others may have one: no lane is paused."""
    missing = Trouble("PROVIDER_NOT_CONFIGURED", f"There is no key for {provider} in this process.")
    return Snooze(NO_KEY_SECONDS, data=missing, code=missing.code, message=missing.message)


def quiet_memo(job: Job) -> Any:
    """Return the memo after an answer: the count of failures in a row starts again."""
    return None if job.memo else KEEP


#: What users hear of it. Addresses, keys and quotas are the operators' matter: they have the alert and the task's row.
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
    """Return what users hear of a trouble: never a provider's own words, which may hold addresses."""
    return TROUBLE.get(code, OTHER_TROUBLE if code.startswith("PROVIDER_") else OUR_TROUBLE)
