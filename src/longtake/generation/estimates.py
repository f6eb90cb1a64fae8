"""How long a model usually takes, from its newest completed tasks: what a page shows while one waits."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sqlalchemy import select

from longtake.clock import Clock
from longtake.db import Database, Transaction
from longtake.generation.tables import tasks

SAMPLE = 200
FRESH_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds from acceptance to completion over so many runs; None while there are none."""

    median_seconds: float | None
    p95_seconds: float | None
    runs: int


NONE_YET = Estimate(None, None, 0)


class Estimates:
    """Reads all models' durations at once, at most every half minute."""

    def __init__(self, database: Database, clock: Clock, models: list[str]) -> None:
        self._database = database
        self._clock = clock
        self._models = models
        self._known = dict.fromkeys(models, NONE_YET)
        self._read_at = -math.inf

    async def all(self) -> dict[str, Estimate]:
        """Return what is known of every model."""
        now = self._clock.monotonic()
        if now - self._read_at > FRESH_SECONDS:
            # Before the read: callers that come meanwhile get what was known, not a read of their own.
            self._read_at = now
            self._known = await self._database.read(_read, self._models)
        return self._known


def _read(tx: Transaction, models: list[str]) -> dict[str, Estimate]:
    known = {}
    for model in models:
        newest = (
            select(tasks.c.started_at, tasks.c.created_at, tasks.c.ended_at)
            .where(tasks.c.model == model, tasks.c.status == "completed")
            .order_by(tasks.c.ended_at.desc())
            .limit(SAMPLE)
        )
        rows = tx.execute(newest).all()
        # A provider that answers with the file itself has no moment of acceptance.
        known[model] = estimate([(row.ended_at - (row.started_at or row.created_at)).total_seconds() for row in rows])
    return known


def estimate(seconds: list[float]) -> Estimate:
    """Return median and 95th percentile: of few runs the nearest there is."""
    if not seconds:
        return NONE_YET
    ordered = sorted(seconds)

    def at(part: float) -> float:
        return round(ordered[min(math.ceil(part * len(ordered)), len(ordered)) - 1], 2)

    return Estimate(at(0.5), at(0.95), len(ordered))
