"""A worker's membership: registered, kept alive by heartbeats, its leases compared with its running jobs.

Heartbeats come from a thread of their own, so that a blocked event loop does not cost the worker its leases.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import structlog

from longtake.clock import new_id
from longtake.db.database import TRANSIENT, retry_until_available
from longtake.engine.completer import Completer
from longtake.engine.engine import Engine
from longtake.engine.executor import Executor, StopReason
from longtake.engine.jobs import Job
from longtake.engine.leases import Pulse, beat, register_worker, retire_worker, return_jobs
from longtake.engine.outcomes import judge_crash, unsettled
from longtake.errors import LongtakeError
from longtake.redaction import redact_text

log = structlog.get_logger(__name__)

#: A claim whose answer came while a beat was under way is missing from that beat.
ANSWER_SECONDS = 1.0
FAREWELL_SECONDS = 5.0
#: How long past its time limit a handler may ignore that it was cancelled.
WEDGED_GRACE_SECONDS = 10.0
WEDGED = "Its handler was still running long after its time limit, and could not be stopped."
#: After a beat that failed, the next one comes sooner.
RETRY_SECONDS = 1.0


class Membership:
    """Who we are to the others. The identity changes when they have taken us for dead."""

    def __init__(
        self, engine: Engine, completer: Completer, executor: Executor, name: str, lease: float, interval: float
    ) -> None:
        self._engine = engine
        self._completer = completer
        self._executor = executor
        self._name = name
        self._lease = lease
        self._interval = interval
        self._beat_now, self._end = threading.Event(), threading.Event()
        self._heart = threading.Thread(target=self._beat_until_end, name="longtake-heartbeat", daemon=True)
        #: For whom the heart beats; only once that worker is registered.
        self._registered = ""
        self._strangers: dict[tuple[str, str], float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._errands: set[asyncio.Task[Any]] = set()
        self.id = new_id()
        completer.worker = self.id

    async def join(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._register()
        self._heart.start()

    async def leave(self) -> None:
        """Stop beating and sign off; what we still had is given back by then."""
        self._end.set()
        self._beat_now.set()
        # A beat may be under way.
        await asyncio.to_thread(self._heart.join)
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                await self._engine.database.run(retire_worker, self.id)
        except (LongtakeError, TimeoutError) as error:
            log.warning("could not sign off; the lease will run out", action="leave", error=str(error))

    def beat_soon(self) -> None:
        """Beat at once: one of our jobs may have been cancelled."""
        self._beat_now.set()

    async def _register(self) -> None:
        worker, database = self.id, self._engine.database
        values = (worker, self._name, database.incarnation, self._lease)
        await retry_until_available(database.run, register_worker, *values)
        self._registered = worker

    # -- on the event loop: what the database says is ours ------------------------------------------------------

    def _compare(self, worker: str, pulse: Pulse) -> None:
        """Compare the leases in the database with the jobs that run here."""
        if worker != self.id:
            return
        if not pulse.alive:
            self._start_over()
            return
        now = self._engine.clock.monotonic()
        for one in self._executor.all():
            held = pulse.held.get(one.job.id) == one.job.lease_token
            if held and one.job.id in pulse.cancelling:
                one.stop(StopReason.CANCELLED)
            elif not held and now - one.claimed_at > ANSWER_SECONDS:
                log.warning("job lost", action="lose", job_id=one.job.id, job_kind=one.job.kind)
                self._executor.lose(one)
        self._return_strangers(pulse, now)

    def _return_strangers(self, pulse: Pulse, now: float) -> None:
        """Give back jobs that are ours by a claim whose answer never came, once it cannot come any more."""
        ours = {one.job.id for one in self._executor.all()} | self._completer.ids()
        strangers = [lease for lease in pulse.held.items() if lease[0] not in ours]
        self._strangers = {lease: self._strangers.get(lease, now) for lease in strangers}
        overdue = [lease for lease, since in self._strangers.items() if now - since >= self._lease / 2]
        if overdue:
            log.warning("returning jobs whose claim was never answered", action="return", count=len(overdue))
            self._run_errand(retry_until_available(self._engine.database.run, return_jobs, overdue))

    def _start_over(self) -> None:
        """Go on as a new worker: the old one was taken for dead, and its jobs are with others."""
        log.error("this worker was taken for dead; going on as a new one", action="start_over", worker=self.id)
        for one in self._executor.all():
            self._executor.lose(one)
        self._completer.forget()
        self.id = self._completer.worker = new_id()
        self._run_errand(self._register())

    def _run_errand(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    # -- on the heart's thread -----------------------------------------------------------------------------------

    def _beat_until_end(self) -> None:
        pause = self._interval
        while True:
            self._beat_now.wait(pause)
            self._beat_now.clear()
            if self._end.is_set():
                return
            pause = self._interval if self._beat() else min(RETRY_SECONDS, self._interval)

    def _beat(self) -> bool:
        worker = self._registered
        try:
            self._abandon_wedged(worker)
            pulse = self._engine.database.run_blocking(beat, worker, self._lease)
        except LongtakeError as error:
            log.warning("heartbeat failed", action="beat", code=error.code, error=error.message)
            return False
        except Exception:
            log.exception("heartbeat failed", action="beat")
            return False
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._compare, worker, pulse)
        return True

    def _abandon_wedged(self, worker: str) -> None:
        now = self._engine.clock.monotonic()
        for one in self._executor.all():
            started = one.started_at
            if started is None or now - started < one.kind.time_limit + WEDGED_GRACE_SECONDS:
                continue
            if self._take_away(one.job, worker):
                log.error(
                    "handler wedged, job taken from it", action="abandon", job_id=one.job.id, job_kind=one.job.kind
                )

    def _take_away(self, job: Job, worker: str) -> bool:
        run, finish = self._engine.database.run_blocking, self._engine.finish
        try:
            return bool(run(finish, [judge_crash(job, worker, WEDGED)]))
        except TRANSIENT:
            raise
        except Exception as error:
            # A settle that fails must not cost the worker its heartbeat, and with it all other jobs.
            log.exception("a wedged job could not be settled", action="abandon", job_id=job.id, job_kind=job.kind)
            return bool(run(finish, [unsettled(job, worker, redact_text(f"{type(error).__name__}: {error}"))]))
