"""The claimer: claims jobs for a worker while there is room, and commits what has ended in the same transactions.

Lanes without limits are claimed from in bulk, by two pumps. Limited lanes are claimed from by permit, one after the
other, each in a transaction of its own, away from the hot path.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import structlog

from longtake.db.retry import PAUSE_SECONDS, TRANSIENT

if TYPE_CHECKING:
    from longtake.engine.claim_timer import ClaimTimer
    from longtake.engine.completer import Completer
    from longtake.engine.engine import Engine
    from longtake.engine.executor import Executor
    from longtake.engine.queue import QueueName

log = structlog.get_logger(__name__)

PUMPS = 2
BATCH = 100
LANE_BATCH = 50
SHORTEST_PAUSE = 0.005
REMEMBERED = 0.9


class Claimer:
    """Fills the executor up to ``concurrency`` running jobs, until it is closed."""

    def __init__(
        self, engine: Engine, timer: ClaimTimer, completer: Completer, executor: Executor, concurrency: int
    ) -> None:
        self._engine = engine
        self._timer = timer
        self._completer = completer
        self._executor = executor
        self._concurrency = concurrency
        #: Room that claims under way may fill.
        self.reserved = 0
        self._closed = False
        self._lane_ready_at: dict[str, float] = {}
        self._lane_full: dict[str, bool] = {}
        #: How long claims take, slow ones remembered for a while: what is permitted before the answer comes is lost.
        self._claim_seconds = 0.0

    def start(self) -> tuple[list[asyncio.Task[None]], asyncio.Task[None]]:
        """Start the pumps, which go on until everything is committed, and the claims from limited lanes."""
        return [asyncio.create_task(self._pump()) for _ in range(PUMPS)], asyncio.create_task(self._claim_from_lanes())

    def close(self) -> None:
        """Claim nothing more."""
        self._closed = True

    @property
    def busy(self) -> bool:
        """Say whether any job runs, is about to, or waits to be written."""
        return bool(len(self._executor) or self.reserved or self._completer.waiting)

    def room(self) -> int:
        """Return how many more jobs may run."""
        if self._closed or self._executor.reserved_for_suspect:
            return 0
        return max(self._concurrency - len(self._executor) - self.reserved, 0)

    # -- lanes without limits ------------------------------------------------------------------------------------

    async def _pump(self) -> None:
        """Exchange what is finished for what is next, again and again."""
        # Also while a claim is under way in any lane: what it brings after the stop has to be given back.
        while not (self._closed and not self.busy):
            await self._timer.until_something_to_do(has_room=self.room() > 0)
            if held_back := self._timer.held_back(len(self._executor)):
                await asyncio.sleep(held_back)
            await self._exchange()
        # At a stop the other pump may be waiting for what this one has just written.
        self._timer.wake()

    async def _exchange(self) -> None:
        timer, verdicts = self._timer, self._completer.take()
        wanted = timer.begin_claim(min(self.room(), BATCH))
        if not verdicts and not wanted:
            return
        timer.begin_exchange()
        self.reserved += wanted
        claimed_at = self._engine.clock.monotonic()
        try:
            claim = await self._completer.exchange(verdicts, timer.queues(), wanted, look=timer.look())
        except TRANSIENT as error:
            log.warning("database trouble, trying again", action="exchange", code=error.code, error=error.message)
            timer.put_off(wanted, PAUSE_SECONDS)
            await asyncio.sleep(PAUSE_SECONDS)
            return
        finally:
            self.reserved -= wanted
        timer.end_claim(claim, wanted)
        self._executor.take(claim, claimed_at)

    # -- limited lanes -------------------------------------------------------------------------------------------

    async def _claim_from_lanes(self) -> None:
        changed = self._timer.limited_changed
        while not self._closed:
            changed.clear()
            try:
                pause = await self._round()
            except TRANSIENT as error:
                log.warning("database trouble, trying again", action="claim", code=error.code, error=error.message)
                pause = PAUSE_SECONDS
            try:
                async with asyncio.timeout(None if math.isinf(pause) else max(pause, SHORTEST_PAUSE)):
                    await changed.wait()
            except TimeoutError:
                pass

    async def _round(self) -> float:
        """Claim once from each lane that may have something; return how long there is nothing to do."""
        timer, pause = self._timer, math.inf
        freed, timer.freed = timer.freed, set()
        for lane, (queues, due_at) in list(timer.limited.items()):
            if lane in freed and self._lane_full.pop(lane, False):
                self._lane_ready_at.pop(lane, None)
            wait = max(self._lane_ready_at.get(lane, 0.0), due_at) - self._engine.clock.monotonic()
            if wait <= 0:
                wait = await self._claim_from(lane, queues)
            pause = min(pause, wait)
        return pause

    async def _claim_from(self, lane: str, queues: list[QueueName]) -> float:
        engine, timer = self._engine, self._timer
        wanted = min(self.room(), LANE_BATCH)
        if wanted <= 0:
            return timer.poll_seconds
        claimed_at = engine.clock.monotonic()
        ordered = sorted(queues, key=lambda queue: queue.priority)
        worker, took = self._completer.worker, self._claim_seconds
        self.reserved += wanted
        try:
            claim = await engine.database.run(engine.claim_lane, lane, ordered, worker, wanted, took)
        finally:
            self.reserved -= wanted
            timer.give_room()
        self._claim_seconds = max(engine.clock.monotonic() - claimed_at, took * REMEMBERED)
        self._executor.take(claim, claimed_at)
        if not claim.jobs and claim.next_in <= 0:
            # The lane would permit more, but nothing is due: the heads we knew are gone.
            timer.look_again()
            return timer.poll_seconds
        self._lane_ready_at[lane] = claimed_at + claim.next_in
        self._lane_full[lane] = claim.lane_full
        return claim.next_in
