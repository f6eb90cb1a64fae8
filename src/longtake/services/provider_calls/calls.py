"""The one way in which a job calls a provider: ``ask_provider``.

It waits for the lane's permit, makes the call, and turns every failure into the job's outcome. Trouble passes by
itself, or an operator fixes it: it spends no attempt, and a task that waits too long ends at its deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from longtake.engine.kinds import Exponential
from longtake.engine.outcomes import KEEP, Fail, Outcome, Retry, Snooze
from longtake.errors import (
    LongtakeError,
    ProviderBusy,
    ProviderError,
    ProviderOutOfCredits,
    ProviderQuotaSpent,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnauthorized,
    ProviderUnavailable,
)
from longtake.services.provider_calls.trouble import Trouble

if TYPE_CHECKING:
    from longtake.engine.jobs import Job
    from longtake.services.provider_calls.lanes import LaneOwner

T = TypeVar("T")

#: Failures in a row, in one lane and one process, after which the lane holds back for all.
BREAKER_LIMIT = 5
BREAKER_SECONDS = 20.0
BACK_OFF = Exponential(first=4.0, most=60.0)
BUSY_SECONDS = 10.0
#: A paused lane starts no jobs. Jobs that were already running try again after this time.
PAUSED_SECONDS = 60.0
NO_KEY_SECONDS = 30.0
#: Errors that do not pass by themselves, or not today: operators get an alert.
FOR_PEOPLE = (ProviderQuotaSpent, ProviderUnauthorized, ProviderOutOfCredits)
#: Errors that say nothing about the request: whatever is asked for, they spend no attempt.
ABOUT_ACCOUNT = (ProviderBusy, *FOR_PEOPLE)


@dataclass
class Breaker:
    """Counts failures in a row by lane, so that a provider that comes back does not meet a storm of requests."""

    failures: dict[str, int] = field(default_factory=dict)

    def failed(self, lane: str) -> bool:
        """Count a failure; return whether to hold the lane back."""
        self.failures[lane] = self.failures.get(lane, 0) + 1
        return self.failures[lane] >= BREAKER_LIMIT

    def answered(self, lane: str) -> None:
        """Reset the count after any answer."""
        self.failures.pop(lane, None)


async def ask_provider(
    job: Job,
    provider: LaneOwner,
    call: Callable[[], Awaitable[T]],
    limit: float | None = None,
    *,
    breaker: Breaker,
    counted: bool = False,
) -> T | Outcome:
    """Return the provider's answer, or how the job goes on without one.

    ``call`` is made at the time of the job's permit and takes at most ``limit`` seconds. It may return an outcome
    where it finds that there is nothing to ask for. A refusal fails the job and is the outcome's data; any other error
    is waited out. With ``counted``, an error that may be about the request itself spends an attempt.
    """
    if not provider.configured:
        return without_key(provider.name)
    await job.permit()
    try:
        async with asyncio.timeout(limit):
            answer = await call()
    except TimeoutError:
        late = ProviderTimeout(f"{provider.name} did not answer within {limit or 0:g} s.", provider=provider.name)
        return _go_on(late, job, breaker, counted=counted)
    except ProviderRefused as error:
        breaker.answered(job.lane)
        return Fail(error.code, error.message, data=error)
    except ProviderError as error:
        return _go_on(error, job, breaker, counted=counted)
    if not isinstance(answer, Outcome):
        breaker.answered(job.lane)
    return answer


def without_key(provider: str) -> Snooze:
    """Return the snooze in a process without a key for the provider.

    No lane is paused: other processes may have a key.
    """
    missing = Trouble("PROVIDER_NOT_CONFIGURED", f"No key is configured for {provider} in this process.")
    return Snooze(NO_KEY_SECONDS, data=missing, code=missing.code, message=missing.message)


def wait_out(error: LongtakeError, job: Job) -> Snooze:
    """Return the snooze after an error that is neither the provider's nor about the task: our own trouble."""
    return _snooze(error, job, BACK_OFF.delay(_failures(job) + 1, job.engine.random))


def quiet_memo(job: Job) -> Any:
    """Return the memo after an answer, which resets the count of failures in a row."""
    return None if job.memo else KEEP


def _go_on(error: ProviderError, job: Job, breaker: Breaker, *, counted: bool) -> Outcome:
    blocked = isinstance(error, ProviderUnavailable) and breaker.failed(job.lane)
    if counted and not isinstance(error, ABOUT_ACCOUNT):
        after = getattr(error, "retry_after", None)
        return Retry(error.code, error.message, after=after, slow_lane=blocked)
    return _wait_for_provider(error, job, blocked=blocked)


def _wait_for_provider(error: ProviderError, job: Job, *, blocked: bool) -> Snooze:
    random, slow, pause = job.engine.random, False, None
    match error:
        case ProviderBusy(retry_after=float() | int() as seconds):
            slow = True
        case ProviderBusy():
            seconds, slow = BUSY_SECONDS * random.uniform(0.8, 1.2), True
        case ProviderQuotaSpent(reset=seconds):
            slow = True
        case ProviderUnauthorized():
            seconds, pause = PAUSED_SECONDS, "all"
        case ProviderOutOfCredits():
            seconds, pause = PAUSED_SECONDS, "submit"
        case _ if blocked:
            seconds, slow = BREAKER_SECONDS * random.uniform(0.8, 1.2), True
        case _:
            return wait_out(error, job)
    return _snooze(error, job, seconds, pause=pause, slow=slow)


def _snooze(error: LongtakeError, job: Job, seconds: float, *, pause: str | None = None, slow: bool = False) -> Snooze:
    failures = _failures(job) + 1
    # These failures are over; the next try has the number after them.
    trouble = Trouble(
        error.code, error.message, pause, alert=isinstance(error, FOR_PEOPLE), attempt=failures + 1, seconds=seconds
    )
    memo = {**(job.memo or {}), "trouble": failures}
    return Snooze(seconds, memo=memo, slow_lane=slow, data=trouble, code=error.code, message=error.message)


def _failures(job: Job) -> int:
    """Return how many calls in a row have failed before this one."""
    return int((job.memo or {}).get("trouble", 0))
