"""The executor: a worker's running jobs, from claim to verdict.

The life of a job reads top to bottom: ``take`` accepts a claim, ``begin`` starts the handler, ``_run`` awaits it,
``_conclude`` turns its outcome into a verdict for the next exchange with the database.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import structlog

from longtake.db.retry import retry_until_available
from longtake.engine.claims import permit_alone
from longtake.engine.leases import fenced, mark_alone
from longtake.engine.outcomes import Cancelled, Fail, Outcome, Retry
from longtake.engine.verdicts import CRASHES_BEFORE_ALONE, judge, release
from longtake.errors import LeaseLost, LongtakeError
from longtake.logs import log_context
from longtake.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtake.db import Transaction
    from longtake.engine.claim_timer import ClaimTimer
    from longtake.engine.claims import Claim
    from longtake.engine.completer import Completer
    from longtake.engine.engine import Engine
    from longtake.engine.jobs import Job
    from longtake.engine.kinds import JobKind

log = structlog.get_logger(__name__)

PROGRESS_SECONDS = 1.0
#: How long handlers get to react to being stopped, after the grace is over.
LAST_SECONDS = 2.0
#: How long a worker stands by, empty, for a new permit of a job that must run alone.
STAND_BY_SECONDS = 10.0
#: A handler that forgot to return. Inside here None means something else: that the job is given back.
NOTHING = Fail("NOT_AN_OUTCOME", "The handler returned None, not an outcome (Done, Snooze, Retry, Fail, Cancelled).")


class StopReason(Enum):
    """Why a running handler was stopped."""

    CANCELLED = "cancelled"
    TIME_LIMIT = "time limit"
    RELEASED = "released"
    LOST = "lost"


@dataclass(slots=True)
class RunningJob:
    """One claimed job. A job that is claimed again is another InHand."""

    job: Job
    kind: JobKind
    claimed_at: float
    #: Later than this it is not begun but given back: its permit has lapsed, or its lease may be with another.
    start_by: float
    timed: bool = False
    started_at: float | None = None
    task: asyncio.Task[None] | None = None
    stop_reason: StopReason | None = None
    last_progress: float | None = None

    def stop(self, reason: StopReason) -> None:
        """End the handler; what it would have returned no longer counts."""
        if self.stop_reason is None:
            self.stop_reason = reason
            # A task that is cancelled before its first step never runs at all: it looks at the reason itself then.
            if self.task is not None and self.started_at is not None:
                self.task.cancel()


class Executor:
    """Lives on the worker's event loop; only the heartbeat's thread looks in from outside."""

    def __init__(self, engine: Engine, completer: Completer, timer: ClaimTimer, lease_seconds: float) -> None:
        self._engine = engine
        self._claim_lifetime = lease_seconds / 2
        self._completer = completer
        self._timer = timer
        self._jobs: dict[str, RunningJob] = {}
        self._suspects: asyncio.Queue[RunningJob] = asyncio.Queue()
        self._alone: RunningJob | None = None
        self._closing = False

    def __len__(self) -> int:
        return len(self._jobs)

    def all(self) -> list[RunningJob]:
        """Return the jobs that were claimed and have not ended."""
        return list(self._jobs.values())

    @property
    def reserved_for_suspect(self) -> bool:
        """Say whether nothing may be added, because a job must run alone."""
        return self._alone is not None or not self._suspects.empty()

    # -- from claim to handler -----------------------------------------------------------------------------------

    def take(self, claim: Claim, claimed_at: float) -> None:
        """Start what was claimed; where a lane gave permits, each at its time."""
        for index, job in enumerate(claim.jobs):
            one = RunningJob(job, self._engine.kinds[job.kind], claimed_at, claimed_at + self._claim_lifetime)
            self._jobs[job.id] = one
            job.progress_writer = self._write_progress
            if job.cancel_requested_at is not None:
                self._conclude(one, Cancelled())
            elif claim.lifetime is not None:
                self._begin_on_time(one, claim, claim.starts[index], claim.lifetime)
            else:
                self._begin(one)

    def _begin_on_time(self, one: RunningJob, claim: Claim, starts_in: float, lifetime: float) -> None:
        """Start a job at its permit's time, or have it prepare; missed by more than its lifetime, it is given back.

        The claim's transaction had begun when it was counted from, so a start is never too early; lateness is
        counted from before the claim was sent, so it is never measured too small.
        """
        one.start_by, one.timed = one.claimed_at + starts_in + lifetime, True
        one.job.permitted_until = one.start_by
        if one.kind.prepares:
            one.job.permitted_from = claim.counted_from + starts_in
            self._begin(one)
            return

        def begin_when_permitted() -> None:
            if self._jobs.get(one.job.id) is not one:
                return
            # Looked at again each time: timers of the event loop may be a little early.
            wait = claim.counted_from + starts_in - self._engine.clock.monotonic()
            if wait > 0:
                asyncio.get_running_loop().call_later(wait, begin_when_permitted)
            else:
                self._begin(one)

        begin_when_permitted()

    def _begin(self, one: RunningJob) -> None:
        """Start the handler now; a job that may be what kills workers waits until it can run alone."""
        if self._closing or (self._alone is not None and self._alone is not one):
            self._conclude(one, None)
        elif one.job.crashes >= CRASHES_BEFORE_ALONE and self._alone is not one:
            self._suspects.put_nowait(one)
        else:
            one.task = asyncio.create_task(self._run(one))

    # -- from handler to verdict ---------------------------------------------------------------------------------

    async def _run(self, one: RunningJob) -> None:
        job = one.job
        if one.stop_reason is not None:
            self._conclude(one, _stopped(one))
            return
        now = self._engine.clock.monotonic()
        if now > one.start_by:
            log.info("too late to begin, job given back", action="lapse", job_id=job.id, lane=job.lane)
            self._conclude(one, None)
            return
        one.started_at = now
        log_context.set({"job_id": job.id, "job_kind": job.kind, "request_id": job.request_id or ""})
        outcome: Outcome | None
        try:
            returned: Outcome | None = await one.kind.handler(job)
            outcome = NOTHING if returned is None else returned
        except asyncio.CancelledError as error:
            # A handler may raise this by itself, after awaiting something that was cancelled.
            task = asyncio.current_task()
            outcome = _stopped(one) if task is not None and task.cancelling() else _surprise(error)
        except Exception as error:  # noqa: BLE001 - a handler may raise anything; none of it may harm the worker
            outcome = _surprise(error)
        self._conclude(one, outcome)

    def _conclude(self, one: RunningJob, outcome: Outcome | None) -> None:
        """Let the outcome take effect with the next exchange. None: it was not begun, or not ended, by itself."""
        if self._jobs.get(one.job.id) is one:
            del self._jobs[one.job.id]
        if one.stop_reason is StopReason.LOST:
            self._timer.wake()
            return
        worker = self._completer.worker
        if outcome is None:
            self._completer.add(release(one.job, worker))
            return
        verdict = judge(one.kind, one.job, outcome, worker, self._engine.random)
        if isinstance(verdict.outcome, Fail):
            code = verdict.outcome.code
            log.warning("job failed", action="fail", job_id=one.job.id, job_kind=one.job.kind, code=code)
        self._completer.add(verdict)

    def lose(self, one: RunningJob) -> None:
        """Drop a job whose lease is gone: nothing about it may be written any more."""
        one.stop(StopReason.LOST)
        if one.task is None:
            self._conclude(one, None)

    async def run_suspects(self) -> None:
        """Run jobs that were there when workers died one at a time, with nothing beside them."""
        while True:
            one = self._alone = await self._suspects.get()
            try:
                while others := [other.task for other in self._jobs.values() if other.task is not None]:
                    await asyncio.wait(others)
                if await self._may_run_alone(one):
                    one.job.alone = True
                    self._begin(one)
                    if one.task is not None:
                        await asyncio.wait([one.task])
            finally:
                self._alone = None
                self._timer.wake()

    async def _may_run_alone(self, one: RunningJob) -> bool:
        """Mark it as running alone; where its permit lapsed while the others finished, with a new one."""
        clock, run = self._engine.clock, self._engine.database.run
        give_up_at = clock.monotonic() + STAND_BY_SECONDS
        while one.timed and clock.monotonic() > one.start_by:
            asked_at = clock.monotonic()
            permit = await retry_until_available(run, permit_alone, one.job)
            if permit.wait is None:
                one.start_by = one.job.permitted_until = asked_at + permit.lifetime
                return True
            if asked_at > give_up_at or not permit.ours:
                break
            await asyncio.sleep(permit.wait)
        else:
            one.start_by = one.start_by if one.timed else math.inf
            if await retry_until_available(run, mark_alone, one.job):
                return True
        self._conclude(one, None)
        return False

    def close(self) -> None:
        """Begin nothing more: what a claim under way still brings is given back."""
        self._closing = True

    async def finish_or_release(self, grace: float) -> None:
        """Let what runs finish within the grace, then give it back unspent."""
        self.close()
        if running := [one.task for one in self._jobs.values() if one.task is not None]:
            await asyncio.wait(running, timeout=grace)
        for one in self.all():
            one.stop(StopReason.RELEASED)
        if running := [one.task for one in self._jobs.values() if one.task is not None]:
            await asyncio.wait(running, timeout=LAST_SECONDS)
        # What has not begun, and what does not react even now: its lease is given up all the same.
        for one in self.all():
            self._conclude(one, None)

    async def _write_progress(
        self, job: Job, function: Callable[..., None], *arguments: Any, at_once: bool = False
    ) -> bool:
        one, now = self._jobs.get(job.id), self._engine.clock.monotonic()
        if one is not None:
            if not at_once and one.last_progress is not None and now - one.last_progress < PROGRESS_SECONDS:
                return False
            one.last_progress = now
        await self._engine.database.run(_fenced_write, job, function, arguments)
        return True


def _fenced_write(tx: Transaction, job: Job, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    if not fenced(tx, job):
        raise LeaseLost(f"The job {job.id} is no longer ours.")
    function(tx, *arguments)


def _stopped(one: RunningJob) -> Outcome | None:
    match one.stop_reason:
        case StopReason.CANCELLED:
            return Cancelled()
        case StopReason.TIME_LIMIT:
            return Retry("TIME_LIMIT", f"It took longer than its time limit of {one.kind.time_limit:g} s.")
    return None


def _surprise(error: BaseException) -> Retry:
    code = error.code if isinstance(error, LongtakeError) else "UNEXPECTED"
    log.warning("handler raised", action="surprise", exc_info=error)
    return Retry(code, redact_text(f"{type(error).__name__}: {error}"))
