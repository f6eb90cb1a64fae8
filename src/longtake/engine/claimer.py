"""The claimer: claims jobs for a worker while there is room, and commits what has ended in the same transactions.

Lanes without limits are claimed from in bulk, by two pumps. Limited lanes are claimed from by permit, one after the
other, each in a transaction of its own, away from the hot path.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import structlog

from longtake.clock import Clock
from longtake.db.database import PAUSE_SECONDS, TRANSIENT
from longtake.engine.engine import Engine
from longtake.engine.kinds import JobKind
from longtake.engine.queue import Claim, Head, QueueName

if TYPE_CHECKING:
    from longtake.engine.completer import Completer
    from longtake.engine.executor import Executor

log = structlog.get_logger(__name__)

PUMPS = 2
BATCH = 100
LANE_BATCH = 50
SHORTEST_PAUSE = 0.005
REMEMBERED = 0.9
#: Jobs that become due by time are gathered for so long, so that a thousand of them are a few claims.
LINGER_SECONDS = 0.1
#: Exchanges of a busy worker with the database are so far apart on average: what comes meanwhile is done with them, at
#: a fraction of the cost. A worker with few running jobs does not wait, and a backlog is drained at once.
GATHER_SECONDS = 0.04
BUSY_JOBS = 2
#: So many exchanges may follow each other at once after a rest: single jobs that come and go do not wait either.
GATHER_BURST = 5


class ClaimTimer:
    """When to claim next: at once after a wake-up, at the next due time, at the latest after the poll interval.

    Shared by a worker's pumps; lives on its event loop.
    """

    def __init__(self, clock: Clock, poll_seconds: float, kinds: Mapping[str, JobKind]) -> None:
        self._clock = clock
        self.poll_seconds = poll_seconds
        self._kinds = kinds
        self._event = asyncio.Event()
        # Counts wake-ups: one that arrives while a claim is under way must cause another claim.
        self._generation = 0
        self._claiming_since = 0
        self._backlog = False
        self._claim_at = 0.0
        self._flush_at = math.inf
        self._looked_at = -math.inf
        #: Until when the exchanges made so far are spread, GATHER_SECONDS each.
        self._spread_until = -math.inf
        self._queues = {QueueName(kind.lane, kind.name, kind.priority): None for kind in kinds.values()}
        self._turn = 0
        #: Limited lanes with waiting jobs: their queues, and when the first job is due (monotonic).
        self.limited: dict[str, tuple[list[QueueName], float]] = {}
        self.limited_changed = asyncio.Event()
        #: Lanes in which jobs have ended since the lane pump last looked.
        self.freed: set[str] = set()

    def wake(self) -> None:
        """Something may be there to do."""
        self._generation += 1
        self._claim_at = 0.0
        self._event.set()
        self.limited_changed.set()

    def flush_within(self, seconds: float) -> None:
        """Something is to be committed, at the latest after so long."""
        at = self._clock.monotonic() + seconds if seconds else 0.0
        if at < self._flush_at:
            self._flush_at = at
            self._event.set()

    def flushed(self) -> None:
        self._flush_at = math.inf

    def give_room(self) -> None:
        """Wake a pump that saw no room: reserved room is free again."""
        self._event.set()

    def expect(self, seconds: float) -> None:
        """Claim after so long: a job was put back, which sends no signal, and the next poll may be later."""
        at = self._clock.monotonic() + self._wait(seconds) if seconds > 0 else 0.0
        if at < self._claim_at:
            self._claim_at = at
            self._event.set()

    async def until_something_to_do(self, *, has_room: bool) -> None:
        """Wait until it is time to claim or to commit."""
        self._event.clear()
        at = min(self._flush_at, self._claim_at if has_room else math.inf)
        wait = at - self._clock.monotonic()
        if wait <= 0:
            # Let finished handlers add their verdicts to this batch.
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(None if math.isinf(wait) else wait):
                await self._event.wait()
        except TimeoutError:
            pass

    def begin_exchange(self) -> None:
        """Count an exchange: too many in a row hold the next one back."""
        now = self._clock.monotonic()
        most = now + (GATHER_BURST + 1) * GATHER_SECONDS
        self._spread_until = min(max(self._spread_until, now) + GATHER_SECONDS, most)

    def held_back(self, running: int) -> float:
        """Return for how long the next exchange of a worker with so many running jobs is held back."""
        if running < BUSY_JOBS or self._backlog:
            return 0.0
        return max(self._spread_until - GATHER_BURST * GATHER_SECONDS - self._clock.monotonic(), 0.0)

    def begin_claim(self, room: int) -> int:
        """Return how much to claim now; if it is anything, the other pumps need not unless something new happens."""
        if room <= 0 or self._claim_at > self._clock.monotonic():
            return 0
        self._claiming_since = self._generation
        # While there is a backlog, two claims side by side keep two database connections busy.
        self._claim_at = 0.0 if self._backlog else math.inf
        return room

    def put_off(self, wanted: int, seconds: float) -> None:
        """Claim later: this one failed."""
        if wanted:
            self._claim_at = min(self._claim_at, self._clock.monotonic() + seconds)

    def end_claim(self, claim: Claim, wanted: int) -> None:
        """Decide when to claim next from what this claim found."""
        if not wanted:
            return
        now = self._clock.monotonic()
        self._backlog = len(claim.jobs) == wanted
        if self._backlog or claim.heads is None or self._generation != self._claiming_since:
            self._claim_at = 0.0
            self._event.set()
        if claim.heads is not None:
            self._looked_at = now
            self._learn(claim.heads, now)

    def free_lanes(self, lanes: set[str]) -> None:
        """Jobs of these lanes have ended: one that was full may have room."""
        if not lanes.isdisjoint(self.limited):
            self.freed |= lanes
            self.limited_changed.set()

    def look(self) -> bool:
        """Say whether it is time to look at all queues even if known ones keep us busy."""
        return self._clock.monotonic() - self._looked_at >= self.poll_seconds

    def look_again(self) -> None:
        """Look soon: what we believe to be waiting is gone."""
        self._claim_at = 0.0
        self._event.set()

    def queues(self) -> list[QueueName]:
        """Return all queues we may claim from: by priority, and within one by turns."""
        names = list(self._queues)
        self._turn += 1
        if names:
            turn = self._turn % len(names)
            names = names[turn:] + names[:turn]
        return sorted(names, key=lambda name: name.priority)

    def _learn(self, heads: list[Head], now: float) -> None:
        ours = [head for head in heads if head.queue.kind in self._kinds and not head.paused]
        waits = [self.poll_seconds]
        self.limited = {}
        for head in ours:
            if head.limited:
                queues, due_at = self.limited.setdefault(head.queue.lane, ([], math.inf))
                self.limited[head.queue.lane] = ([*queues, head.queue], min(due_at, now + head.due_in))
            elif head.queue not in self._queues:
                waits.append(max(head.due_in, 0.0))
            else:
                waits.append(self._wait(head.due_in))
            self._queues[head.queue] = None
        self._claim_at = min(self._claim_at, now + min(waits))
        self.limited_changed.set()
        self._event.set()

    def _wait(self, due_in: float) -> float:
        # Due already, yet not claimed: locked by another claim, or room ran out. Look again shortly.
        return due_in + LINGER_SECONDS if due_in > 0 else LINGER_SECONDS


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
        self._closed = True

    @property
    def busy(self) -> bool:
        """Say whether any job runs, is about to, or waits to be written."""
        return bool(len(self._executor) or self.reserved or self._completer.waiting)

    def room(self) -> int:
        if self._closed or self._executor.reserved_for_suspect:
            return 0
        return max(self._concurrency - len(self._executor) - self.reserved, 0)

    # -- lanes without limits ------------------------------------------------------------------------------------

    async def _pump(self) -> None:
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
