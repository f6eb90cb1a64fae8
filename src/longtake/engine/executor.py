"""The executor: a worker's running jobs, from claim to verdict.

The life of a job reads top to bottom: ``take`` accepts a claim, ``_begin`` starts a task for it, ``_run`` awaits the
handler, ``_permit`` has it wait for its lane, ``_conclude`` turns its outcome into a verdict for the next exchange with
the database.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

import structlog

from longtake.db import Transaction
from longtake.db.database import retry_until_available
from longtake.engine.claimer import ClaimTimer
from longtake.engine.completer import Completer
from longtake.engine.engine import Engine
from longtake.engine.errors import LeaseLost
from longtake.engine.jobs import Job
from longtake.engine.kinds import JobKind
from longtake.engine.lane_store import new_permit
from longtake.engine.leases import fenced, mark_alone
from longtake.engine.outcomes import CRASHES_BEFORE_ALONE, Cancelled, Fail, Outcome, Retry, judge, release
from longtake.engine.queue import Claim
from longtake.errors import LongtakeError
from longtake.logs import log_context
from longtake.redaction import redact_text

log = structlog.get_logger(__name__)

PROGRESS_SECONDS = 1.0
#: How long handlers get to react to being stopped, after the grace is over.
LAST_SECONDS = 2.0
#: How long a job keeps its place while it asks for a new permit.
RENEW_SECONDS = 10.0
#: So many jobs whose permits lapsed are remembered.
LAPSED_MOST = 1_000
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
    """One claimed job. A job that is claimed again is another RunningJob."""

    job: Job
    kind: JobKind
    claimed_at: float
    #: Later than this it is given back: its permit has lapsed, or its lease may be with another.
    start_by: float
    #: Whether its lane says when it may start, and when that is.
    timed: bool = False
    permit_at: float = -math.inf
    #: Whether it waits for that time, and whether it has come.
    waiting: bool = False
    permitted: bool = False
    #: Since when its time limit counts, which it does not while the job waits for its permit.
    started_at: float | None = None
    task: asyncio.Task[None] | None = None
    entered: bool = False
    stop_reason: StopReason | None = None
    last_progress: float | None = None

    def stop(self, reason: StopReason) -> None:
        """End the handler; what it would have returned no longer counts."""
        if self.stop_reason is None:
            self.stop_reason = reason
            # A task that is cancelled before its first step never runs at all: it looks at the reason itself then.
            if self.task is not None and self.entered:
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
        self._lapsed: set[str] = set()
        self._closing = False

    def __len__(self) -> int:
        return len(self._jobs)

    def all(self) -> list[RunningJob]:
        return list(self._jobs.values())

    @property
    def reserved_for_suspect(self) -> bool:
        """Say whether nothing may be added, because a job must run alone."""
        return self._alone is not None or not self._suspects.empty()

    # -- from claim to handler -----------------------------------------------------------------------------------

    def take(self, claim: Claim, claimed_at: float) -> None:
        """Start what was claimed; where a lane gave permits, each is used at its time."""
        for index, job in enumerate(claim.jobs):
            one = RunningJob(job, self._engine.kinds[job.kind], claimed_at, claimed_at + self._claim_lifetime)
            if claim.lifetime is not None:
                # The claim's transaction had begun when it was counted from, so a start is never too early; lateness
                # is counted from before the claim was sent, so it is never measured too small.
                one.timed, one.permit_at = True, claim.counted_from + claim.starts[index]
                one.start_by = claimed_at + claim.starts[index] + claim.lifetime
            self._jobs[job.id] = one
            # Neither refers to the job: a cycle would leave each job to the garbage collector.
            job.progress_writer, job.lane_waiter = self._write_progress, self._permit_of
            if job.cancel_requested_at is not None:
                self._conclude(one, Cancelled())
            else:
                self._begin(one)

    def _begin(self, one: RunningJob) -> None:
        """Start its task now; a job that may be what kills workers waits until it can run alone."""
        if self._closed_to(one):
            self._conclude(one, None)
        elif one.job.crashes >= CRASHES_BEFORE_ALONE and self._alone is not one:
            self._suspects.put_nowait(one)
        else:
            one.task = asyncio.create_task(self._run(one))

    def _closed_to(self, one: RunningJob) -> bool:
        """Say whether it may not begin, because the worker stops or another job is to run alone."""
        return self._closing or (self._alone is not None and self._alone is not one)

    # -- from handler to verdict ---------------------------------------------------------------------------------

    async def _run(self, one: RunningJob) -> None:
        job, one.entered = one.job, True
        if one.stop_reason is not None:
            self._conclude(one, _stopped(one))
            return
        log_context.set({"job_id": job.id, "job_kind": job.kind, "request_id": job.request_id or ""})
        outcome: Outcome | None
        try:
            returned: Outcome | None = await self._handle(one)
            outcome = NOTHING if returned is None else returned
        except asyncio.CancelledError as error:
            # A handler may raise this by itself, after awaiting something that was cancelled.
            task = asyncio.current_task()
            outcome = _stopped(one) if task is not None and task.cancelling() else _surprise(error)
        except Exception as error:  # noqa: BLE001 - a handler may raise anything; none of it may harm the worker
            outcome = _surprise(error)
        self._conclude(one, outcome)

    async def _handle(self, one: RunningJob) -> Outcome | None:
        """Run the handler, with its permit or up to it; what it reads before has a time limit of the same length."""
        if self._too_late(one) and not self._keeps_place(one):
            await self._give_back(one)
        one.started_at = self._engine.clock.monotonic()
        if one.kind.permit == "call":
            one.job.permit_waiter = partial(self._permit, one)
        else:
            await self._permit(one)
        return await one.kind.handler(one.job)

    # -- permits -------------------------------------------------------------------------------------------------

    async def _permit(self, one: RunningJob) -> None:
        """Wait for the time of the job's permit, once in a run; a job that is too late is given back."""
        if one.stop_reason is not None:
            raise asyncio.CancelledError
        if one.permitted:
            return
        if one.timed:
            one.started_at, one.waiting = None, True
            await self._wait_for_permit(one)
            one.waiting = False
        one.permitted, one.started_at = True, self._engine.clock.monotonic()

    async def _wait_for_permit(self, one: RunningJob) -> None:
        # Looked at again each time: timers may be early, and a permit may lapse while it is waited for.
        while (now := self._engine.clock.monotonic()) < one.permit_at or now > one.start_by:
            if self._closing or (now > one.start_by and not (self._keeps_place(one) and await self._renew(one))):
                await self._give_back(one)
            await asyncio.sleep(max(one.permit_at - self._engine.clock.monotonic(), 0.0))
        if one.kind.permit == "start" and self._closed_to(one):
            await self._give_back(one)

    def _too_late(self, one: RunningJob) -> bool:
        return self._engine.clock.monotonic() > one.start_by

    def _keeps_place(self, one: RunningJob) -> bool:
        """Say whether a job gets a new permit in the place of one that lapsed, instead of being given back.

        One that runs alone would have to wait for that again, and one that reads for longer than permits live would
        never get to its call.
        """
        return one.timed and (one.job.alone or one.job.id in self._lapsed)

    async def _renew(self, one: RunningJob) -> bool:
        """Get a new permit for a job whose own has lapsed; return whether there is one soon."""
        found = await self._new_permit(one.job, one.job.lane)
        if found is not None:
            one.permit_at, one.start_by = found
        return found is not None

    async def _permit_of(self, job: Job, lane: str) -> bool:
        """Wait for the time of a permit of another lane; return False if there is none soon."""
        clock, give_up_at = self._engine.clock, self._engine.clock.monotonic() + RENEW_SECONDS
        while clock.monotonic() < give_up_at and (found := await self._new_permit(job, lane)) is not None:
            permit_at, start_by = found
            while (wait := permit_at - clock.monotonic()) > 0:
                if self._closing:
                    return False
                await asyncio.sleep(wait)
            if clock.monotonic() <= start_by:
                return True
        return False

    async def _new_permit(self, job: Job, lane: str) -> tuple[float, float] | None:
        """Return when a running job may call, and how late at most; None if there is no permit soon."""
        clock, run = self._engine.clock, self._engine.database.run
        took, give_up_at = 0.0, clock.monotonic() + RENEW_SECONDS
        while not self._closing and (asked_at := clock.monotonic()) < give_up_at:
            new = await retry_until_available(run, new_permit, job, lane, clock, took)
            took = clock.monotonic() - asked_at
            if new.starts_in is not None:
                start_by = asked_at + new.starts_in + new.lifetime
                if clock.monotonic() <= start_by:
                    return new.counted_from + new.starts_in, start_by
            elif asked_at + new.wait > give_up_at:
                break
            await asyncio.sleep(new.wait)
        return None

    async def _give_back(self, one: RunningJob) -> None:
        """End the run of a job that may not start; does not return."""
        if self._too_late(one):
            log.info("too late to begin, job given back", action="lapse", job_id=one.job.id, lane=one.job.lane)
            if one.kind.permit == "call":
                # Forgetting costs a job one more lapse.
                if len(self._lapsed) >= LAPSED_MOST:
                    self._lapsed.clear()
                self._lapsed.add(one.job.id)
        one.stop(StopReason.RELEASED)
        await asyncio.get_running_loop().create_future()

    # -- the end of a run ----------------------------------------------------------------------------------------

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
        self._lapsed.discard(one.job.id)
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
                if await self._mark_alone(one):
                    self._begin(one)
                else:
                    self._conclude(one, None)
                if one.task is not None:
                    await asyncio.wait([one.task])
            finally:
                self._alone = None
                self._timer.wake()

    async def _mark_alone(self, one: RunningJob) -> bool:
        """Record that it runs alone, before its handler can do any harm; return whether it is still ours."""
        one.job.alone = True
        if not one.timed:
            one.start_by = math.inf
        elif one.kind.permit == "start" and self._too_late(one):
            # Recorded with its new permit: until then, the death of the worker is not its doing.
            return True
        return await retry_until_available(self._engine.database.run, mark_alone, one.job)

    def close(self) -> None:
        """Begin nothing more: what waits for its permit, or comes with a claim under way, is given back."""
        self._closing = True
        for one in self.all():
            if one.waiting:
                one.stop(StopReason.RELEASED)

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
