"""The job ``generation.sweep``: tasks past their deadline end, by the database's clock and however the workers fare.

A running task is asked about one last time before it is given up; if that does not happen soon (its lane is paused,
its provider down), it ends all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import structlog
from sqlalchemy import Row, select

from longtake.db import Database, Transaction
from longtake.db.dialects import NOW, seconds_until
from longtake.engine.control import cancel_of_subject, hurry
from longtake.engine.engine import Engine
from longtake.engine.jobs import Job, Priority
from longtake.engine.kinds import JobKind
from longtake.engine.outcomes import Done, Outcome
from longtake.engine.schedules import Schedule
from longtake.engine.tables import jobs
from longtake.generation.attaching import look_again
from longtake.generation.endings import Unsuccessful, end_tasks
from longtake.generation.idempotency import forget_old_keys
from longtake.generation.kinds import OF_A_TASK, POLL, SUBMIT, SWEEP
from longtake.generation.tables import UNFINISHED, tasks
from longtake.providers.provider import Provider

log = structlog.get_logger(__name__)

EVERY_SECONDS = 15.0
PAGE = 200
#: How long past the deadline a last answer is waited for.
LAST_LOOK_SECONDS = 120.0


class Sweeping:
    """Runs sweeps."""

    def __init__(self, database: Database, engine: Callable[[], Engine], providers: Mapping[str, Provider]) -> None:
        self._database = database
        self._engine = engine
        self._providers = providers

    def kind(self) -> JobKind:
        """Return the job kind."""
        return JobKind(SWEEP, self.run, priority=Priority.HIGH, time_limit=60.0, max_attempts=3)

    def schedule(self) -> Schedule:
        """Return when it runs."""
        return Schedule(SWEEP, SWEEP, every=EVERY_SECONDS)

    async def run(self, _job: Job) -> Outcome:
        """End what is overdue, page by page."""
        engine = self._engine()
        while ended := await self._database.run(end_overdue, engine):
            log.info("tasks past their deadline ended", action="sweep", tasks=ended)
            if ended < PAGE:
                break
        await self._database.run(look_again, engine, self._providers)
        await self._database.run(forget_old_keys)
        return Done()


def end_overdue(tx: Transaction, engine: Engine) -> int:
    """End a page of overdue tasks, or have them asked about one last time; return how many ended."""
    late = seconds_until(tasks.c.deadline_at).label("late")
    # Asked about at or after the deadline, and still not done.
    asked = (tasks.c.last_polled_at >= tasks.c.deadline_at).label("asked")
    overdue = (tasks.c.status.in_(UNFINISHED), tasks.c.deadline_at < NOW)
    columns = (tasks.c.id, tasks.c.status, tasks.c.type, tasks.c.needs_review, late, asked)
    rows = tx.execute(select(*columns).where(*overdue).order_by(tasks.c.deadline_at).limit(PAGE)).all()
    given_up = [row for row in rows if _is_over(tx, row)]
    waiting = [row.id for row in rows if row.status == "running" and row not in given_up]
    if waiting:
        hurry(tx, engine, POLL, waiting)
    endings = []
    for row in sorted(given_up, key=lambda one: str(one.id)):
        # The job first, then the task, as everywhere: nobody deadlocks.
        cancel_of_subject(tx, engine, row.id, OF_A_TASK, "past its deadline")
        endings.append(_ending(row))
    return len(end_tasks(tx, engine, unsuccessful=endings))


def _is_over(tx: Transaction, row: Row[Any]) -> bool:
    if -row.late > LAST_LOOK_SECONDS or row.needs_review:
        return True
    if row.status == "running":
        return bool(row.asked)
    # A submit that is under way right now is let finish: its answer is worth having.
    submitting = (jobs.c.kind == SUBMIT, jobs.c.key == str(row.id), jobs.c.state == "running")
    return tx.execute(select(jobs.c.id).where(*submitting)).first() is None


def _ending(row: Row[Any]) -> Unsuccessful:
    if row.needs_review:
        text = "The provider's answer was lost, and nothing was heard of the task until its deadline."
        return Unsuccessful(row.id, "failed", "SUBMIT_UNKNOWN", text)
    if row.status == "running":
        return Unsuccessful(row.id, "failed", "TIMEOUT", f"The provider did not finish the {row.type} in time.")
    return Unsuccessful(row.id, "failed", "TIMEOUT", "The task waited too long for its turn at the provider.")
