"""A worker: claims jobs, runs their handlers, finishes them; survives everything but being killed.

The life of a job here reads top to bottom: ``_pump`` exchanges verdicts for claimed jobs, ``_take`` starts them,
``_run`` awaits the handler, ``_conclude`` turns its outcome into a verdict for the next exchange.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING, Any

import structlog

from longtake.clock import new_id
from longtake.engine.duties import run_duties
from longtake.engine.finishing import Finishing
from longtake.engine.hand import InHand, StopReason
from longtake.engine.heartbeat import Heartbeat
from longtake.engine.lane_pump import LanePump
from longtake.engine.leases import Pulse, fenced, mark_alone, register_worker, retire_worker, return_jobs
from longtake.engine.outcomes import Cancelled, Fail, Outcome, Retry
from longtake.engine.rhythm import Rhythm
from longtake.engine.verdicts import CRASHES_BEFORE_ALONE, judge, release
from longtake.errors import DatabaseError, LeaseLost, LongtakeError
from longtake.logs import log_context
from longtake.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from longtake.db import Transaction
    from longtake.engine.claims import Claim
    from longtake.engine.engine import Engine
    from longtake.engine.jobs import Job

log = structlog.get_logger(__name__)

PUMPS = 2
BATCH = 100
PROGRESS_SECONDS = 1.0
DATABASE_PAUSE_SECONDS = 0.5


class Worker:
    """Runs jobs of the kinds its engine knows until it is stopped."""

    def __init__(
        self,
        engine: Engine,
        *,
        concurrency: int = 200,
        name: str | None = None,
        poll_seconds: float = 1.0,
        lease_seconds: float = 30.0,
        heartbeat_seconds: float = 10.0,
        stop_grace_seconds: float = 20.0,
    ) -> None:
        self.engine = engine
        self.database = engine.database
        self.id = new_id()
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self.concurrency = concurrency
        self.lease_seconds = lease_seconds
        self.stop_grace_seconds = stop_grace_seconds
        self.rhythm = Rhythm(engine.clock, poll_seconds, engine.kinds)
        self.finishing = Finishing(engine, self.rhythm, lambda: self.id)
        self.hand: dict[str, InHand] = {}
        self._lanes = LanePump(self)
        self._strangers: dict[str, str] = {}
        self._suspects: asyncio.Queue[InHand] = asyncio.Queue()
        self._errands: set[asyncio.Task[Any]] = set()
        self._alone = False
        self.reserved = 0
        self._heartbeat = Heartbeat(
            engine, lease_seconds, heartbeat_seconds, lambda: list(self.hand.values()), self._hear_pulse
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()

    # -- life ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until :meth:`stop` is called; then finish or give back what is in hand, and return."""
        self._loop = asyncio.get_running_loop()
        await self._persistently(self._register)
        unsubscribe = self.database.signals.subscribe(self._hear_signal)
        self._heartbeat.start(self.id)
        pumps = [asyncio.create_task(self._pump()) for _ in range(PUMPS)]
        pumps.append(asyncio.create_task(self._lanes.run()))
        duties = [asyncio.create_task(self._run_suspects()), *run_duties(self)]
        log.info("worker started", action="start", worker=self.id, kinds=sorted(self.engine.kinds))
        try:
            await _first_failure_or(self._stopping.wait(), [*pumps, *duties])
        finally:
            self.stop()
            await self._wind_down(pumps, duties)
            unsubscribe()
            log.info("worker stopped", action="stop", worker=self.id)

    def stop(self) -> None:
        """Claim nothing more; let what runs finish within the grace, then give it back unspent."""
        self._stopping.set()
        self.rhythm.wake()

    @property
    def stopping(self) -> bool:
        """Say whether the worker is on its way out."""
        return self._stopping.is_set()

    async def _register(self) -> None:
        incarnation = self.database.incarnation
        await self.database.run(register_worker, self.id, self.name, incarnation, self.lease_seconds)

    async def _wind_down(self, pumps: list[asyncio.Task[None]], duties: list[asyncio.Task[None]]) -> None:
        for duty in duties:
            duty.cancel()
        await asyncio.gather(*duties, return_exceptions=True)
        running = [one.task for one in self.hand.values() if one.task is not None]
        if running:
            await asyncio.wait(running, timeout=self.stop_grace_seconds)
        for one in list(self.hand.values()):
            if one.task is None:
                self._conclude(one, None)
            else:
                one.stop(StopReason.RELEASED)
        self.rhythm.wake()
        await asyncio.gather(*pumps, return_exceptions=True)
        self._heartbeat.stop()
        try:
            await self.finishing.flush()
            await self.database.run(retire_worker, self.id)
        except LongtakeError as error:
            log.warning("could not say good-bye; the lease will run out", action="stop", error=error.message)

    # -- claiming ------------------------------------------------------------------------------------------------

    def room(self) -> int:
        """Return how many more jobs may be taken in hand."""
        if self.stopping or self._alone or not self._suspects.empty():
            return 0
        return max(self.concurrency - len(self.hand) - self.reserved, 0)

    async def _pump(self) -> None:
        """Exchange what is finished for what is next, again and again."""
        while not (self.stopping and not self.hand and not self.finishing.waiting):
            room = min(self.room(), BATCH)
            await self.rhythm.until_something_to_do(room > 0)
            room = min(self.room(), BATCH)
            wanted = room if self.rhythm.begin_claim(room) else 0
            verdicts = self.finishing.take()
            if not verdicts and not wanted:
                continue
            self.reserved += wanted
            claimed_at = self.engine.clock.monotonic()
            try:
                look = self.rhythm.look()
                claim = await self.finishing.exchange(verdicts, self.rhythm.queues(), wanted, look=look)
            except DatabaseError as error:
                log.warning("database trouble, trying again", action="exchange", code=error.code, error=error.message)
                self.rhythm.end_claim(None, wanted, DATABASE_PAUSE_SECONDS)
                await asyncio.sleep(DATABASE_PAUSE_SECONDS)
                continue
            finally:
                self.reserved -= wanted
            if wanted:
                self.rhythm.end_claim(claim, wanted)
            self.take(claim, claimed_at)

    def take(self, claim: Claim, claimed_at: float) -> None:
        """Start what was claimed; with a permit, at its time."""
        for index, job in enumerate(claim.jobs):
            one = InHand(job, self.engine.kinds[job.kind], claimed_at)
            self.hand[job.id] = one
            job.progress_writer = self._write_progress
            if job.cancel_requested_at is not None:
                self._conclude(one, Cancelled())
            elif claim.lifetime is not None:
                self._lanes.start_on_time(one, claim.starts[index], claim.lifetime)
            else:
                self.begin(one)

    def begin(self, one: InHand) -> None:
        """Start the handler now; a job that may be what kills workers waits until it can run alone."""
        if one.job.crashes >= CRASHES_BEFORE_ALONE and not self._alone:
            self._suspects.put_nowait(one)
            return
        one.task = asyncio.create_task(self._run(one))

    # -- running -------------------------------------------------------------------------------------------------

    async def _run(self, one: InHand) -> None:
        job = one.job
        one.started_at = self.engine.clock.monotonic()
        log_context.set({"job_id": job.id, "job_kind": job.kind, "request_id": job.request_id or ""})
        outcome: Outcome | None
        try:
            async with asyncio.timeout(one.kind.time_limit) as limit:
                outcome = await one.kind.handler(job)
        except asyncio.CancelledError:
            outcome = Cancelled() if one.stop_reason is StopReason.CANCELLED else None
        except TimeoutError as error:
            if limit.expired():
                outcome = Retry("TIME_LIMIT", f"It took longer than its time limit of {one.kind.time_limit:g} s.")
            else:
                outcome = _surprise(error)
        except Exception as error:  # noqa: BLE001 - a handler may raise anything; none of it may harm the worker
            outcome = _surprise(error)
        self._conclude(one, outcome)

    def _conclude(self, one: InHand, outcome: Outcome | None) -> None:
        """Let the outcome take effect with the next exchange. None: no outcome, the job is given back."""
        if self.hand.get(one.job.id) is one:
            del self.hand[one.job.id]
        if one.stop_reason is StopReason.LOST:
            return
        if outcome is None:
            verdict = release(one.job, self.id)
        else:
            verdict = judge(one.kind, one.job, outcome, self.id, self.engine.random)
        if isinstance(verdict.outcome, Fail):
            log.warning("job failed", action="fail", job_id=one.job.id, job_kind=one.job.kind, code=verdict.outcome.code)
        self.finishing.add(verdict)

    def give_back(self, one: InHand) -> None:
        """Return a job that was never begun, unspent."""
        self._conclude(one, None)

    async def _run_suspects(self) -> None:
        """Run jobs that were there when workers died one at a time, with nothing beside them."""
        while True:
            one = await self._suspects.get()
            self._alone = True
            try:
                while any(other.task is not None for other in self.hand.values()):
                    others = [other.task for other in self.hand.values() if other.task is not None]
                    await asyncio.wait(others)
                if await self._persistently(self._mark_alone, one.job):
                    self.begin(one)
                    if one.task is not None:
                        await asyncio.wait([one.task])
                else:
                    one.stop(StopReason.LOST)
                    self._conclude(one, None)
            finally:
                self._alone = False
                self.rhythm.wake()

    async def _mark_alone(self, job: Job) -> bool:
        return await self.database.run(mark_alone, job)

    async def _write_progress(self, job: Job, function: Callable[..., None], *arguments: Any) -> bool:  # noqa: ANN401
        one = self.hand.get(job.id)
        now = self.engine.clock.monotonic()
        if one is not None and 0 <= one.last_progress and now - one.last_progress < PROGRESS_SECONDS:
            return False
        if one is not None:
            one.last_progress = now
        await self.database.run(_fenced_write, job, function, arguments)
        return True

    async def _persistently(self, call: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:  # noqa: ANN401
        """Do it however often the database has to be asked."""
        while True:
            try:
                return await call(*arguments)
            except DatabaseError as error:
                log.warning("database trouble, trying again", action="wait", code=error.code, error=error.message)
                await asyncio.sleep(DATABASE_PAUSE_SECONDS)

    # -- what is heard from elsewhere ----------------------------------------------------------------------------

    def _hear_signal(self, topic: str) -> None:
        if topic == "cancel":
            self._heartbeat.beat_soon()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.rhythm.wake)

    def _hear_pulse(self, worker: str, pulse: Pulse) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._compare, worker, pulse)

    def _compare(self, worker: str, pulse: Pulse) -> None:
        """Compare what the database says we hold with what we have in hand."""
        if worker != self.id:
            return
        if not pulse.alive and not self.stopping:
            self._start_over()
            return
        for one in list(self.hand.values()):
            if one.job.id in pulse.cancelling and pulse.held[one.job.id] == one.job.lease_token:
                one.stop(StopReason.CANCELLED)
            elif pulse.held.get(one.job.id) != one.job.lease_token and self._old_enough(one):
                log.warning("job lost", action="lose", job_id=one.job.id, job_kind=one.job.kind)
                self._lose(one)
        self._return_strangers(pulse)

    def _old_enough(self, one: InHand) -> bool:
        # A claim answered while the beat was under way is missing from it.
        return self.engine.clock.monotonic() - one.claimed_at > 1.0

    def _lose(self, one: InHand) -> None:
        one.stop(StopReason.LOST)
        if one.task is None:
            self._conclude(one, None)

    def _return_strangers(self, pulse: Pulse) -> None:
        """Give back jobs that were claimed for us by a claim whose answer never came, once two beats agree."""
        ours = {one.job.id for one in self.hand.values()} | self.finishing.ids()
        strangers = {job_id: token for job_id, token in pulse.held.items() if job_id not in ours}
        known = [(job_id, token) for job_id, token in strangers.items() if self._strangers.get(job_id) == token]
        self._strangers = strangers
        if known:
            log.warning("returning jobs whose claim was never answered", action="return", count=len(known))
            self._background(self._persistently(self.database.run, return_jobs, known))

    def _start_over(self) -> None:
        """Go on as a new worker: the old one was taken for dead, and its jobs are with others."""
        log.error("this worker was taken for dead; going on as a new one", action="start_over", worker=self.id)
        for one in list(self.hand.values()):
            self._lose(one)
        self.finishing.forget()
        self.id = new_id()

        self._background(self._register_again())

    async def _register_again(self) -> None:
        await self._persistently(self._register)
        self._heartbeat.follow(self.id)

    def _background(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)


def _fenced_write(tx: Transaction, job: Job, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    if not fenced(tx, job):
        raise LeaseLost(f"The job {job.id} is no longer ours.")
    function(tx, *arguments)


def _surprise(error: Exception) -> Retry:
    code = error.code if isinstance(error, LongtakeError) else "UNEXPECTED"
    log.warning("handler raised", action="surprise", exc_info=error)
    return Retry(code, redact_text(f"{type(error).__name__}: {error}"))


async def _first_failure_or(stop: Coroutine[Any, Any, Any], tasks: list[asyncio.Task[None]]) -> None:
    """Wait for the stop; a task of ours that dies before it is an error that must not pass silently."""
    stopped = asyncio.create_task(stop)
    done, _ = await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    for task in done:
        if task is not stopped:
            task.result()
