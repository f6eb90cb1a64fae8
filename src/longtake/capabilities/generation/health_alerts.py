"""The job ``generation.check``: raise and resolve alerts about failure rates and missing polls, once a minute.

It runs once for all machines. An alert stays open while its condition holds; the first check that finds it over
resolves it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, func, select

from longtake.adapters.providers.provider import Provider
from longtake.capabilities.generation.figures import IS_RUNNING, UNPOLLED, EndedTasks, by_index, read_ended
from longtake.capabilities.generation.jobs import JobContext
from longtake.capabilities.generation.tables import CHECK, tasks
from longtake.db import Transaction
from longtake.engine.jobs import Job
from longtake.engine.kinds import JobKind
from longtake.engine.outcomes import Done, Outcome
from longtake.engine.schedules import Schedule
from longtake.engine.tables import lanes
from longtake.services.alerts import Severity, raise_alert, resolve_alert

EVERY_SECONDS = 60.0
HOURS = 24.0
#: A rate of fewer tasks says nothing.
LEAST_ENDED = 20
FAILED_MOST = 0.1
#: Twice as long as the longest pause between two polls, and some more.
UNPOLLED_MOST = 300.0

FAILURE_RATE_HIGH = "FAILURE_RATE_HIGH"
TASKS_NOT_POLLED = "TASKS_NOT_POLLED"


class HealthCheck:
    """Runs the check."""

    def __init__(self, context: JobContext) -> None:
        self._database = context.database
        self._providers = context.providers

    def kind(self) -> JobKind:
        """Return the job kind."""
        return JobKind(CHECK, self.run, time_limit=30.0, max_attempts=3)

    def schedule(self) -> Schedule:
        """Return when it runs."""
        return Schedule(CHECK, CHECK, every=EVERY_SECONDS)

    async def run(self, _job: Job) -> Outcome:
        """Read the figures, then raise or resolve the alerts."""
        ended = await self._database.read(read_ended, HOURS)
        unpolled = await self._database.read(read_unpolled, self._providers)
        await self._database.run(write_alerts, ended, unpolled)
        return Done()


def write_alerts(tx: Transaction, ended: Mapping[str, EndedTasks], unpolled: str | None) -> None:
    """Raise the alerts whose condition holds, and resolve the others."""
    for name, one in ended.items():
        rate = one.failure_rate
        if rate is not None and one.judged >= LEAST_ENDED and rate > FAILED_MOST:
            message = (
                f"{one.counts['failed']:,} of {one.judged:,} {name} tasks failed in the last {HOURS:g} hours"
                f" ({100 * rate:.1f} %). `longtake figures` shows more."
            )
            raise_alert(tx, Severity.WARNING, FAILURE_RATE_HIGH, message, subject=name)
        else:
            resolve_alert(tx, FAILURE_RATE_HIGH, name)
    if unpolled is None:
        resolve_alert(tx, TASKS_NOT_POLLED)
    else:
        raise_alert(tx, Severity.CRITICAL, TASKS_NOT_POLLED, unpolled)


def read_unpolled(tx: Transaction, providers: Mapping[str, Provider]) -> str | None:
    """Return the message about tasks that were not polled for too long, with paused lanes; None if there are none.

    Few tasks run at once, so all are read: an index by the time of the last poll would slow every poll.
    """
    by_index(tx)
    # In the order of the small index: else PostgreSQL may read all waiting tasks too.
    running = (
        select(tasks.c.provider, UNPOLLED.label("seconds")).where(IS_RUNNING).order_by(tasks.c.provider).subquery()
    )
    late = select(running.c.provider, func.count().label("number"), func.max(running.c.seconds).label("longest"))
    rows = tx.execute(late.where(running.c.seconds > UNPOLLED_MOST).group_by(running.c.provider)).all()
    if not rows:
        return None
    number, longest = sum(row.number for row in rows), max(row.longest for row in rows)
    names = ", ".join(sorted(row.provider for row in rows))
    paused = _paused(tx, rows, providers)
    why = f" Paused: {', '.join(paused)}; resume with `longtake lanes resume`." if paused else ""
    return (
        f"{number:,} running tasks ({names}) were not polled for more than {UNPOLLED_MOST / 60:g} minutes,"
        f" the longest for {longest / 60:.0f}.{why or ' `longtake workers list` shows whether a worker runs.'}"
    )


def _paused(tx: Transaction, rows: Sequence[Row[Any]], providers: Mapping[str, Provider]) -> list[str]:
    asked = [providers[row.provider].query_lane.name for row in rows if row.provider in providers]
    found = select(lanes.c.name).where(lanes.c.name.in_(asked), lanes.c.paused).order_by(lanes.c.name)
    return list(tx.execute(found).scalars())
