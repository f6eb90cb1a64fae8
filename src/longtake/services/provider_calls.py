"""The one way in which a job calls a provider: ``ask_provider``.

It waits for the lane's permit, makes the call, and turns every failure into the job's outcome. Trouble passes by
itself, or an operator fixes it: it spends no attempt unless the caller counts it, and a task that waits too long ends
at its deadline. What trouble does to lanes and alerts, what users are told, and how both end, is below.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import structlog

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
from longtake.db import Transaction
from longtake.db.database import TRANSIENT
from longtake.engine.jobs import Job
from longtake.engine.kinds import Exponential
from longtake.engine.lane_store import all_lanes, lane_view, lock_lanes, pause_unpaused, resume_lane, wake_lane
from longtake.engine.lanes import Lane
from longtake.engine.outcomes import KEEP, Fail, Outcome, Retry, Snooze
from longtake.errors import LongtakeError
from longtake.services.alerts import Severity, raise_alert, resolve_alert

T = TypeVar("T")

log = structlog.get_logger(__name__)

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


# -- trouble with lanes and alerts -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trouble:
    """What keeps a job waiting, and what to do with the lane."""

    code: str
    message: str
    #: Lanes to pause until an operator resumes them: "submit" or "all".
    pause: str | None = None
    #: Raise an alert, one for the provider instead of one for each task.
    alert: bool = False
    #: The number of the next try, and the seconds until then; None if nothing was tried.
    attempt: int | None = None
    seconds: float = 0.0


#: The sentences for users. URLs, keys and quotas are for operators, who see the alert and the task's row.
TROUBLE = {
    "PROVIDER_BUSY": "The provider is not accepting requests for now.",
    "PROVIDER_FULL": "The provider is already working on as many tasks as it allows.",
    "PROVIDER_QUOTA_SPENT": "The provider's quota for today is used up.",
    "SUBMIT_UNKNOWN": "The provider's answer was lost; the task costs nothing unless it is found again.",
    "TASK_NOT_FOUND": "The provider does not know the task; it is asked once more.",
}
OTHER_TROUBLE = "The provider cannot be used right now; the task goes on by itself."
OUR_TROUBLE = "Something went wrong on our side; the task goes on by itself."


def trouble_words(code: str) -> str:
    """Return the sentence for users; never the provider's own text, which may contain URLs."""
    return TROUBLE.get(code, OTHER_TROUBLE if code.startswith("PROVIDER_") else OUR_TROUBLE)


#: The reason of these pauses. Lanes that an operator paused have another reason and stay paused.
REASON = ProviderUnauthorized.code


class LaneOwner(Protocol):
    """A provider of media or of facts, whose calls run in lanes."""

    @property
    def name(self) -> str: ...

    @property
    def configured(self) -> bool: ...

    @property
    def submit_lane(self) -> Lane: ...

    @property
    def query_lane(self) -> Lane: ...


def act_on_trouble(tx: Transaction, provider: LaneOwner, trouble: Trouble, also: Iterable[str] = ()) -> None:
    """Pause the lanes that the trouble concerns, and ``also`` with them, and raise an alert."""
    lanes = {"all": [provider.submit_lane.name, provider.query_lane.name], "submit": [provider.submit_lane.name]}
    concerned = lanes.get(trouble.pause or "", [])
    names = sorted({*concerned, *also}) if concerned else []
    if names or trouble.alert:
        # A batch of outcomes may pause lanes of several providers, slow others, and raise alerts after that: so all
        # lanes are locked, in one order.
        lock_lanes(tx)
    paused = [lane for lane in names if pause_unpaused(tx, lane, trouble.code)]
    if trouble.alert:
        resume = f" Once that is fixed: `longtake lanes resume {' '.join(paused)}`." if paused else ""
        message = f"{trouble.message.rstrip('.')}.{resume}"  # a provider's own words may end without a full stop
        raise_alert(tx, Severity.CRITICAL, trouble.code, message, subject=provider.name)


def end_trouble(tx: Transaction, provider: str, lane: str, codes: Iterable[str]) -> bool:
    """Wake the jobs that wait because of the lane, and resolve the alerts of the trouble that is over.

    Returns False, and changes nothing, while the lane is paused: the answer belongs to a call that was on its way when
    the trouble began, and the alert must stay open until an operator resumes the lane.
    """
    if lane_view(tx, lane).paused:
        return False
    woken = wake_lane(tx, lane)
    for code in codes:
        resolve_alert(tx, code, provider)
    log.info("trouble with a provider is over", action="wake", provider=provider, lane=lane, jobs=woken)
    return True


def try_lanes_again(tx: Transaction, providers: Collection[str], lanes: Collection[str]) -> list[str]:
    """Resume the lanes that wait for a key, resolve their alerts, and return their names.

    A key that is still wrong pauses them again at the first request.
    """
    paused = [
        view.lane.name
        for view in all_lanes(tx)
        if view.paused and view.paused_reason == REASON and view.lane.name in lanes
    ]
    for name in paused:
        resume_lane(tx, name)
    for provider in sorted(providers) if paused else ():
        resolve_alert(tx, REASON, provider)
    if paused:
        log.info("lanes resumed with the current key", action="resume", lanes=paused)
    return paused
