"""How long a model usually takes, computed from its newest completed tasks."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from sqlalchemy import select

from longtake.capabilities.generation.tables import tasks
from longtake.clock import Clock
from longtake.db import Database, Transaction

SAMPLE = 200
FRESH_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds from acceptance to completion over ``runs`` tasks; None while there are none."""

    median_seconds: float | None
    p95_seconds: float | None
    runs: int


NONE_YET = Estimate(None, None, 0)


class Estimates:
    """Reads the durations of all models at once, at most every half minute."""

    def __init__(self, database: Database, clock: Clock, models: list[str]) -> None:
        self._database = database
        self._clock = clock
        self._models = models
        self._known = dict.fromkeys(models, NONE_YET)
        self._read_at = -math.inf
        self._reading: asyncio.Task[None] | None = None

    async def all(self) -> dict[str, Estimate]:
        """Return the estimate of every model."""
        if self._clock.monotonic() - self._read_at > FRESH_SECONDS:
            begins = self._reading is None
            reading = self._reading = self._reading or asyncio.create_task(self._read())
            # Callers that come meanwhile get the old estimates, if there are any, and do not read themselves.
            if begins or self._read_at == -math.inf:
                await asyncio.shield(reading)
        return self._known

    async def _read(self) -> None:
        try:
            self._known = await self._database.read(_read, self._models)
            self._read_at = self._clock.monotonic()
        finally:
            self._reading = None


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
        # A provider that answers with the file itself never accepts a task first.
        known[model] = estimate([(row.ended_at - (row.started_at or row.created_at)).total_seconds() for row in rows])
    return known


def estimate(seconds: list[float]) -> Estimate:
    """Return median and 95th percentile, by the nearest rank."""
    if not seconds:
        return NONE_YET
    ordered = sorted(seconds)

    def at(part: float) -> float:
        return round(ordered[min(math.ceil(part * len(ordered)), len(ordered)) - 1], 2)

    return Estimate(at(0.5), at(0.95), len(ordered))
