"""Claims from limited lanes: by permit, each in its own transaction, away from the hot path."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import structlog

from longtake.db.retry import PAUSE_SECONDS, TRANSIENT

if TYPE_CHECKING:
    from longtake.engine.queue import QueueName
    from longtake.engine.worker import Worker

log = structlog.get_logger(__name__)

BATCH = 50
SHORTEST_PAUSE = 0.005
REMEMBERED = 0.9


class LaneClaimer:
    """Goes from lane to lane whenever one has something due and may permit it."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._ready_at: dict[str, float] = {}
        self._full: dict[str, bool] = {}
        #: How long claims take, slow ones remembered for a while: what is permitted before the answer comes is lost.
        self._claim_seconds = 0.0

    async def run(self) -> None:
        """Claim from limited lanes until the worker stops."""
        timer = self._worker.timer
        while not self._worker.stopping:
            timer.limited_changed.clear()
            try:
                pause = await self._round()
            except TRANSIENT as error:
                log.warning("database trouble, trying again", action="claim", code=error.code, error=error.message)
                pause = PAUSE_SECONDS
            try:
                async with asyncio.timeout(None if math.isinf(pause) else max(pause, SHORTEST_PAUSE)):
                    await timer.limited_changed.wait()
            except TimeoutError:
                pass

    async def _round(self) -> float:
        """Claim once from each lane that may have something; return how long there is nothing to do."""
        clock, timer = self._worker.engine.clock, self._worker.timer
        pause = math.inf
        freed, timer.freed = timer.freed, set()
        for lane, (queues, due_at) in list(timer.limited.items()):
            if lane in freed and self._full.pop(lane, False):
                self._ready_at.pop(lane, None)
            wait = max(self._ready_at.get(lane, 0.0), due_at) - clock.monotonic()
            if wait <= 0:
                wait = await self._claim(lane, queues)
            pause = min(pause, wait)
        return pause

    async def _claim(self, lane: str, queues: list[QueueName]) -> float:
        worker = self._worker
        wanted = min(worker.room(), BATCH)
        if wanted <= 0:
            return worker.timer.poll_seconds
        claimed_at = worker.engine.clock.monotonic()
        ordered = sorted(queues, key=lambda queue: queue.priority)
        worker.reserved += wanted
        try:
            claim = await worker.database.run(
                worker.engine.claim_lane, lane, ordered, worker.id, wanted, self._claim_seconds
            )
        finally:
            worker.reserved -= wanted
            worker.timer.give_room()
        took = worker.engine.clock.monotonic() - claimed_at
        self._claim_seconds = max(took, self._claim_seconds * REMEMBERED)
        worker.executor.take(claim, claimed_at)
        if not claim.jobs and claim.next_in <= 0:
            # The lane would permit more, but nothing is due: the heads we knew are gone.
            worker.timer.look_again()
            return worker.timer.poll_seconds
        self._ready_at[lane] = claimed_at + claim.next_in
        self._full[lane] = claim.lane_full
        return claim.next_in
