"""The job ``generation.check``: once a minute, over all machines, look whether generation fares as it should.

An alert stands for as long as what it says is so, and is resolved by the check that finds it over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, func, select

from longtake.adapters.providers.provider import Provider
from longtake.capabilities.generation.figures import IS_RUNNING, UNASKED, Ended, by_index, read_ended
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
#: Of fewer a rate says nothing.
LEAST_ENDED = 20
FAILED_MOST = 0.1
#: Twice as long as the longest pause between two polls, and some more.
UNASKED_MOST = 300.0

FAILURE_RATE_HIGH = "FAILURE_RATE_HIGH"
TASKS_NOT_POLLED = "TASKS_NOT_POLLED"


class HealthCheck:
    """Runs checks."""

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
        """Look, and raise or resolve what follows from it."""
        ended = await self._database.read(read_ended, HOURS)
        unasked = await self._database.read(read_unasked, self._providers)
        await self._database.run(write_findings, ended, unasked)
        return Done()


def write_findings(tx: Transaction, ended: Mapping[str, Ended], unasked: str | None) -> None:
    """Raise what is so, and resolve what is not."""
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
    if unasked is None:
        resolve_alert(tx, TASKS_NOT_POLLED)
    else:
        raise_alert(tx, Severity.CRITICAL, TASKS_NOT_POLLED, unasked)


def read_unasked(tx: Transaction, providers: Mapping[str, Provider]) -> str | None:
    """Say which providers were not asked about their tasks for too long, and which lanes are paused; None if all were.

    Only few tasks run at once, so they are read as they are: an index by when they were asked would cost every poll.
    """
    by_index(tx)
    # In the order of the small index: else PostgreSQL may read all that waits besides.
    running = select(tasks.c.provider, UNASKED.label("seconds")).where(IS_RUNNING).order_by(tasks.c.provider).subquery()
    late = select(running.c.provider, func.count().label("number"), func.max(running.c.seconds).label("longest"))
    rows = tx.execute(late.where(running.c.seconds > UNASKED_MOST).group_by(running.c.provider)).all()
    if not rows:
        return None
    number, longest = sum(row.number for row in rows), max(row.longest for row in rows)
    names = ", ".join(sorted(row.provider for row in rows))
    paused = _paused(tx, rows, providers)
    why = f" Paused: {', '.join(paused)}; `longtake lanes resume` lets them go on." if paused else ""
    return (
        f"{number:,} running tasks ({names}) were not asked about for more than {UNASKED_MOST / 60:g} minutes,"
        f" the longest for {longest / 60:.0f}.{why or ' `longtake workers list` shows who should.'}"
    )


def _paused(tx: Transaction, rows: Sequence[Row[Any]], providers: Mapping[str, Provider]) -> list[str]:
    asked = [providers[row.provider].query_lane.name for row in rows if row.provider in providers]
    found = select(lanes.c.name).where(lanes.c.name.in_(asked), lanes.c.paused).order_by(lanes.c.name)
    return list(tx.execute(found).scalars())
