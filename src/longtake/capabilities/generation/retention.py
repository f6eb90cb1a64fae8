"""The job ``generation.prune``: ended tasks that are old enough go, as if their users had deleted them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import select

from longtake.capabilities.generation.removal import PAGE, remove_tasks
from longtake.capabilities.generation.tables import PRUNE, UNFINISHED, tasks
from longtake.db import Database, Transaction
from longtake.engine.engine import Engine
from longtake.engine.jobs import Job, Priority
from longtake.engine.kinds import JobKind
from longtake.engine.outcomes import Done, Outcome
from longtake.engine.schedules import Schedule, database_now

EVERY_SECONDS = 3_600.0
FIRST_ID = str(uuid.UUID(int=0))


class Retention:
    """Removes tasks that ended more than so many days ago; with 0 days none."""

    def __init__(self, database: Database, engine: Callable[[], Engine], days: float) -> None:
        self._database = database
        self._engine = engine
        self._days = days

    def kind(self) -> JobKind:
        """Return the job kind."""
        return JobKind(PRUNE, self.run, priority=Priority.LOW, time_limit=600.0)

    def schedule(self) -> Schedule:
        """Return when it runs."""
        return Schedule(PRUNE, PRUNE, every=EVERY_SECONDS)

    async def run(self, _job: Job) -> Outcome:
        """Remove page after page, each in a transaction of its own: a kill loses nothing."""
        after: str | None = FIRST_ID if self._days else None
        while after is not None:
            after = await self._database.run(remove_old_tasks, self._engine(), self._days, after)
        return Done()


def remove_old_tasks(tx: Transaction, engine: Engine, days: float, after: str) -> str | None:
    """Remove a page of old tasks; return the last id that was looked at, or None when there are no more.

    Ids begin with the time: whatever is old enough stands before the day in question.
    """
    cutoff = database_now(tx) - timedelta(days=days)
    end = str(uuid.UUID(int=int(cutoff.timestamp() * 1000) << 80))
    columns = (tasks.c.id, tasks.c.status, tasks.c.ended_at)
    page = select(*columns).where(tasks.c.id > after, tasks.c.id < end).order_by(tasks.c.id).limit(PAGE)
    rows = tx.execute(page).all()
    remove_tasks(tx, engine, [row.id for row in rows if row.status not in UNFINISHED and row.ended_at < cutoff])
    return rows[-1].id if len(rows) == PAGE else None
