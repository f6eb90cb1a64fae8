"""Who waits in which lane for a submit, and in which order: a task's place in the queue.

A look at a lane serves everybody who asks within a second: many pages open at once cost one look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import literal_column, select

from longtake.capabilities.generation.tables import SUBMIT
from longtake.clock import Clock
from longtake.db import Transaction
from longtake.engine.tables import jobs

#: A place further back than this is told as "at least".
LINE_LIMIT = 1_000
FRESH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Line:
    """The tasks that wait in one lane, with how many are before each."""

    read_at: float
    ahead: dict[str, int]

    def place(self, task_id: str) -> dict[str, Any]:
        """Return where the task stands; one that was not seen came after those that were."""
        ahead = self.ahead.get(task_id, len(self.ahead))
        return {"position": ahead + 1, "ahead": ahead, "more": ahead >= LINE_LIMIT}


class Lines:
    """The lanes' queues as this process saw them last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, Line] = {}

    def fresh(self) -> frozenset[str]:
        """Return the lanes that need not be looked at again yet."""
        now = self._clock.monotonic()
        return frozenset(lane for lane, line in self._seen.items() if now - line.read_at < FRESH_SECONDS)

    def due(self, lane: str) -> bool:
        """Say whether the caller should look; others who come meanwhile take what was seen, not a look of their own."""
        if lane in self.fresh():
            return False
        if lane in self._seen:
            self._seen[lane] = replace(self._seen[lane], read_at=self._clock.monotonic())
        return True

    def keep(self, waiting: Mapping[str, Sequence[str]]) -> None:
        """Remember what a look found."""
        now = self._clock.monotonic()
        for lane, task_ids in waiting.items():
            self._seen[lane] = Line(now, {task_id: ahead for ahead, task_id in enumerate(task_ids)})

    def join(self, lane: str, task_id: str) -> None:
        """Put a new task at the end, so that the next one within the second stands behind it."""
        line = self._seen.get(lane)
        if line is not None and len(line.ahead) < LINE_LIMIT:
            line.ahead.setdefault(task_id, len(line.ahead))

    def place(self, lane: str, task_id: str) -> dict[str, Any] | None:
        """Return the task's place in the lane, if anybody has looked there."""
        line = self._seen.get(lane)
        return None if line is None else line.place(task_id)


def read_lines(tx: Transaction, lanes: Iterable[str]) -> dict[str, list[str]]:
    """Return the tasks whose submit waits in each lane, in the order in which workers claim them, up to the limit."""
    # Written as the index of claims has it, which is read in its own order and no further than needed.
    ready = jobs.c.state == literal_column("'ready'")
    waiting = select(jobs.c.key).where(ready, jobs.c.kind == SUBMIT).order_by(jobs.c.priority, jobs.c.due_at)
    return {
        lane: [str(key) for key in tx.execute(waiting.where(jobs.c.lane == lane).limit(LINE_LIMIT)).scalars()]
        for lane in sorted(lanes)
    }
