"""A worker: claims jobs, has their handlers run, finishes them; survives everything but being killed."""

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from longtake.engine.claimer import Claimer, ClaimTimer
from longtake.engine.completer import Completer
from longtake.engine.engine import Engine
from longtake.engine.executor import Executor
from longtake.engine.maintenance import start_maintenance
from longtake.engine.membership import Membership
from longtake.engine.outcomes import Verdict

log = structlog.get_logger(__name__)

#: What a worker wakes up for; signals are also sent about events and tasks.
TOPICS = ("jobs", "cancel")
#: How long the last verdicts may take to be written at a stop.
FLUSH_SECONDS = 5.0


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
        on_written: Callable[[Verdict], None] = lambda _verdict: None,
    ) -> None:
        self.engine = engine
        self.database = engine.database
        self.lease_seconds = lease_seconds
        self.stop_grace_seconds = stop_grace_seconds
        self.timer = ClaimTimer(engine.clock, poll_seconds, engine.kinds)
        self.completer = Completer(engine, self.timer, on_written)
        self.executor = Executor(engine, self.completer, self.timer, lease_seconds)
        self.claimer = Claimer(engine, self.timer, self.completer, self.executor, concurrency)
        name = name or f"{socket.gethostname()}:{os.getpid()}"
        self.membership = Membership(engine, self.completer, self.executor, name, lease_seconds, heartbeat_seconds)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._waking = False
        #: Whether the others have ever heard of us.
        self.joined = False

    @property
    def id(self) -> str:
        return self.membership.id

    async def run(self) -> None:
        """Work until :meth:`stop` is called; then finish or give back the running jobs, and return."""
        self._loop = asyncio.get_running_loop()
        await self._join()
        if not self.joined:
            log.warning("stopped before the database could be reached", action="stop", worker=self.id)
            return
        unsubscribe = self.database.signals.subscribe(self._hear_signal)
        pumps, lanes = self.claimer.start()
        duties = [asyncio.create_task(self.executor.run_suspects()), *start_maintenance(self)]
        log.info("worker started", action="start", worker=self.id, kinds=sorted(self.engine.kinds))
        try:
            await _first_failure_or(self._stopping.wait(), [*pumps, lanes, *duties])
        finally:
            self.stop()
            await self._wind_down(pumps, lanes, duties)
            unsubscribe()
            log.info("worker stopped", action="stop", worker=self.id)

    def stop(self) -> None:
        """Claim nothing more; let what runs finish within the grace, then give it back unspent."""
        self._stopping.set()
        self.claimer.close()
        self.executor.close()
        self.timer.wake()

    async def _join(self) -> None:
        """Register. The database may be away for any time: a stop is heard meanwhile, and waits for the grace."""
        joining = asyncio.create_task(self.membership.join())
        try:
            await _first_failure_or(self._stopping.wait(), [joining])
            await asyncio.wait([joining], timeout=min(self.stop_grace_seconds, FLUSH_SECONDS))
        finally:
            joining.cancel()
            await asyncio.wait([joining])
        self.joined = not joining.cancelled()

    async def _wind_down(
        self, pumps: list[asyncio.Task[None]], lanes: asyncio.Task[None], duties: list[asyncio.Task[None]]
    ) -> None:
        for duty in duties:
            duty.cancel()
        # Not cancelled: the answer to a claim under way would be lost, and its jobs with it for a while.
        await asyncio.wait([lanes], timeout=FLUSH_SECONDS)
        lanes.cancel()
        await asyncio.gather(*duties, lanes, return_exceptions=True)
        await self.executor.finish_or_release(self.stop_grace_seconds)
        self.timer.wake()
        await asyncio.wait(pumps, timeout=FLUSH_SECONDS)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        await self.membership.leave()

    def _hear_signal(self, topic: str) -> None:
        if topic not in TOPICS:
            return
        if topic == "cancel":
            self.membership.beat_soon()
        # A thousand enqueues a second are not a thousand wake-ups: one that is on its way stands for all.
        if not self._waking and self._loop is not None and not self._loop.is_closed():
            self._waking = True
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._waking = False
        self.timer.wake()


async def _first_failure_or(stop: Coroutine[Any, Any, Any], tasks: list[asyncio.Task[None]]) -> None:
    """Wait for the stop; a task of ours that dies before it is an error that must not pass silently."""
    stopped = asyncio.create_task(stop)
    done, _ = await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    for task in done:
        if task is not stopped:
            task.result()
