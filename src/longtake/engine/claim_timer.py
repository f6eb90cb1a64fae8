"""When to claim next: at once after a wake-up, at the next due time, at the latest after the poll interval."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from longtake.engine.queue import QueueName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from longtake.clock import Clock
    from longtake.engine.claims import Claim
    from longtake.engine.kinds import JobKind
    from longtake.engine.queue import Head

#: Jobs that become due by time are gathered for so long, so that a thousand of them are a few claims.
LINGER_SECONDS = 0.1
#: Exchanges of a busy worker with the database are so far apart on average: what comes meanwhile is done with them, at
#: a fraction of the cost. A worker with few running jobs does not wait, and a backlog is drained at once.
GATHER_SECONDS = 0.04
BUSY_JOBS = 2
#: So many exchanges may follow each other at once after a rest: single jobs that come and go do not wait either.
GATHER_BURST = 5


class ClaimTimer:
    """Shared by a worker's pumps; lives on its event loop."""

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
        """Nothing waits to be committed any more."""
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
