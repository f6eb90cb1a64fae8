"""The one way in which a job calls a provider: ``ask_provider``.

It waits for the lane's permit, makes the call, and turns every failure into the job's outcome. Trouble passes by
itself, or an operator fixes it: it spends no attempt unless the caller counts it, and a task that waits too long ends
at its deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from longtake.adapters.providers.errors import (
    ProviderBusy,
    ProviderError,
    ProviderOutOfCredits,
    ProviderQuotaSpent,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnauthorized,
    ProviderUnavailable,
)
from longtake.db.retry import TRANSIENT
from longtake.engine.kinds import Exponential
from longtake.engine.outcomes import KEEP, Fail, Outcome, Retry, Snooze
from longtake.errors import LongtakeError
from longtake.services.provider_calls.lanes import LaneOwner, Trouble, end_trouble

if TYPE_CHECKING:
    from longtake.engine.jobs import Job

T = TypeVar("T")

#: Failures in a row, in one lane and one process, after which the lane holds back for all.
BREAKER_LIMIT = 5
BREAKER_SECONDS = 20.0
#: Deadlines run meanwhile: the waits between two tries stay under a minute.
BACK_OFF = Exponential(first=4.0, most=50.0)
BUSY_SECONDS = 10.0
#: A paused lane starts no jobs. Jobs that were already running try again after this time.
PAUSED_SECONDS = 50.0
NO_KEY_SECONDS = 30.0
#: No job waits longer because of a lane, unless the provider itself said until when.
WOKEN_SECONDS = 60.0
#: Errors that do not pass by themselves, or not today: operators get an alert.
FOR_PEOPLE = (ProviderQuotaSpent, ProviderUnauthorized, ProviderOutOfCredits)
#: Errors that say nothing about the request: whatever is asked for, they spend no attempt.
ABOUT_ACCOUNT = (ProviderBusy, *FOR_PEOPLE)


@dataclass
class Breaker:
    """What this process knows of its lanes: failures in a row, and the trouble since the last answer."""

    failures: dict[str, int] = field(default_factory=dict)
    #: The codes of the trouble, by lane.
    troubles: dict[str, set[str]] = field(default_factory=dict)
    #: When jobs that waited for a lane were woken last (monotonic).
    woken_at: dict[str, float] = field(default_factory=dict)

    def failed(self, lane: str, error: ProviderError) -> bool:
        """Note the trouble; return whether so many calls in a row failed that the lane is to be blocked.

        A provider that comes back must not meet a storm of requests.
        """
        self.troubles.setdefault(lane, set()).add(error.code)
        if not isinstance(error, ProviderUnavailable):
            return False
        self.failures[lane] = self.failures.get(lane, 0) + 1
        return self.failures[lane] >= BREAKER_LIMIT

    def answered(self, lane: str, job: Job) -> set[str]:
        """Reset the count after any answer; return the codes of the trouble that it ends, an empty set if none.

        Trouble may have met another process. Then the job itself tells of it, and of many such jobs the first is
        enough.
        """
        now = job.engine.clock.monotonic()
        self.failures.pop(lane, None)
        codes = self.troubles.pop(lane, set())
        if not codes and now - self.woken_at.get(lane, -math.inf) >= WOKEN_SECONDS:
            codes = {code} if (code := (job.memo or {}).get("trouble_code")) else set()
        if codes:
            self.woken_at[lane] = now
        return codes


async def ask_provider(
    job: Job,
    provider: LaneOwner,
    call: Callable[[], Awaitable[T]],
    limit: float | None = None,
    *,
    breaker: Breaker,
    counted: bool = False,
    lane: str | None = None,
) -> T | Outcome:
    """Return the provider's answer, or how the job goes on without one.

    ``call`` is made at the time of the job's permit and takes at most ``limit`` seconds. It may return an outcome
    where it finds that there is nothing to ask for. A refusal fails the job and is the outcome's data; any other error
    is waited out. With ``counted``, an error that may be about the request itself spends an attempt. The first answer
    after trouble wakes the jobs that wait because of the lane. ``lane`` is the call's own, where it is not the job's.
    """
    if not provider.configured:
        # No lane is paused: other processes may have a key.
        missing = Trouble("PROVIDER_NOT_CONFIGURED", f"No key is configured for {provider.name} in this process.")
        return Snooze(NO_KEY_SECONDS, data=missing, code=missing.code, message=missing.message)
    if lane is None:
        await job.permit()
    elif not await job.permit_of(lane):
        busy = Trouble(ProviderBusy.code, f"The lane {lane} starts no calls for now.")
        return Snooze(BUSY_SECONDS, data=busy, code=busy.code, message=busy.message)
    try:
        async with asyncio.timeout(limit):
            answer = await call()
    except TimeoutError:
        late = ProviderTimeout(f"{provider.name} did not answer within {limit or 0:g} s.", provider=provider.name)
        return _go_on(late, job, lane, breaker, counted=counted)
    except ProviderRefused as error:
        await _answered(job, lane, provider, breaker)
        return Fail(error.code, error.message, data=error)
    except ProviderError as error:
        return _go_on(error, job, lane, breaker, counted=counted)
    if not isinstance(answer, Outcome):
        await _answered(job, lane, provider, breaker)
    return answer


def wait_out(error: LongtakeError, job: Job) -> Snooze:
    """Return the snooze after an error that is neither the provider's nor about the task: our own trouble."""
    return _snooze(error, job, BACK_OFF.delay(_failures(job) + 1, job.engine.random))


def quiet_memo(job: Job) -> Any:
    """Return the memo after an answer, which resets the count of failures in a row."""
    return None if job.memo else KEEP


async def _answered(job: Job, other: str | None, provider: LaneOwner, breaker: Breaker) -> None:
    lane = other or job.lane
    codes = breaker.answered(lane, job)
    if not codes:
        return
    ended = False
    # A provider's answer is worth more than this: it goes on, and the next answer says the same.
    with contextlib.suppress(LongtakeError, *TRANSIENT):
        ended = await job.engine.database.run(end_trouble, provider.name, lane, sorted(codes))
    if not ended:
        breaker.troubles.setdefault(lane, set()).update(codes)


def _go_on(error: ProviderError, job: Job, other: str | None, breaker: Breaker, *, counted: bool) -> Outcome:
    """Return how the job goes on. The breaker blocks its lane; only a provider that asks for it slows the lane."""
    blocked = breaker.failed(other or job.lane, error) and other is None
    if counted and not isinstance(error, ABOUT_ACCOUNT):
        how: dict[str, Any] = {"after": getattr(error, "retry_after", None), "memo": _memo(job, error)}
        return Retry(error.code, error.message, block_lane=blocked, lane_trouble=True, **how)
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
            seconds = BREAKER_SECONDS * random.uniform(0.8, 1.2)
        case _:
            seconds = BACK_OFF.delay(_failures(job) + 1, random)
    snooze = _snooze(error, job, seconds, pause)
    own = other is None  # an outcome holds the job's own lane only
    return replace(snooze, slow_lane=slow and own, block_lane=blocked, lane_trouble=own)


def _snooze(error: LongtakeError, job: Job, seconds: float, pause: str | None = None) -> Snooze:
    # The failures until now are over; the next try has the number after them.
    number, alert = _failures(job) + 2, isinstance(error, FOR_PEOPLE)
    trouble = Trouble(error.code, error.message, pause, alert=alert, attempt=number, seconds=seconds)
    return Snooze(seconds, memo=_memo(job, error), data=trouble, code=error.code, message=error.message)


def _memo(job: Job, error: LongtakeError) -> dict[str, Any]:
    """Return the memo after a failed call: how many in a row there were, and what was wrong with the provider."""
    code = {"trouble_code": error.code} if isinstance(error, ProviderError) else {}
    return {**(job.memo or {}), "trouble": _failures(job) + 1, **code}


def _failures(job: Job) -> int:
    """Return how many calls in a row have failed before this one."""
    return int((job.memo or {}).get("trouble", 0))
