"""Figures of generation, and the job `generation.check`, which raises alerts from them.

Only the newest tasks of the period are counted, up to a limit, so that a busy day does not slow the query.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Column, ColumnElement, Float, Row, Select, func, literal, literal_column, select

from longtake.adapters.providers.provider import Provider
from longtake.capabilities.generation.jobs import JobContext
from longtake.capabilities.generation.tables import CHECK, IS_UNFINISHED, tasks
from longtake.db import Transaction
from longtake.db.dialects import NOW, POSTGRESQL, later, seconds_between
from longtake.engine.jobs import Job
from longtake.engine.kinds import JobKind
from longtake.engine.outcomes import Done, Outcome
from longtake.engine.tables import lanes
from longtake.services.alerts import Severity, raise_alert, resolve_alert

#: Ended tasks that are counted, newest first; more would not make a rate more exact.
ENDED_LIMIT = 10_000
SUCCESS_TARGET = 0.95
MEAN_TARGET = {"image": 60.0, "video": 300.0}
POLL_TARGET = 60.0
#: Unfinished tasks are counted up to this number.
COUNT_LIMIT = 10_000
#: Durations are grouped by this fraction of a second.
STEPS_A_SECOND = 10

#: A provider that answers with the file itself never accepts a task first.
BEGUN = func.coalesce(tasks.c.started_at, tasks.c.created_at)
#: Seconds since a task was last polled, or accepted.
UNPOLLED = seconds_between(func.coalesce(tasks.c.last_polled_at, tasks.c.started_at), NOW)
#: Spelled exactly as in the partial index.
IS_RUNNING: ColumnElement[bool] = literal_column("tasks.status = 'running'")


@dataclass
class EndedTasks:
    """Ended tasks of one type: their number by status, and the completed ones by their duration in steps."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("completed", "failed", "cancelled"), 0))
    seconds: float = 0.0
    steps: dict[float, int] = field(default_factory=dict)

    def take(self, row: Row[Any]) -> None:
        """Add a group of tasks that took the same time."""
        self.counts[row.status] += row.number
        if row.status == "completed":
            self.seconds += row.seconds
            self.steps[row.step] = self.steps.get(row.step, 0) + row.number

    @property
    def judged(self) -> int:
        """How many count for the success rate; cancelled ones do not."""
        return self.counts["completed"] + self.counts["failed"]

    @property
    def failure_rate(self) -> float | None:
        """The share that failed; None when there is nothing to judge."""
        return self.counts["failed"] / self.judged if self.judged else None

    def percentile(self, part: float) -> float | None:
        """Return the time within which this share of the completed tasks was done, to a tenth of a second."""
        left = part * self.counts["completed"]
        for step in sorted(self.steps):
            left -= self.steps[step]
            if left <= 0:
                return step / STEPS_A_SECOND
        return None


def by_index(tx: Transaction) -> None:
    """Make PostgreSQL read by index for the rest of the transaction.

    After a busy hour its statistics are old, and it would read and sort the whole table. Even with new ones it would
    read all waiting tasks, which lie in the order of its index, to sort the few that run.
    """
    if tx.dialect == POSTGRESQL:
        tx.sql("SELECT set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true)")


def read_ended(tx: Transaction, hours: float) -> dict[str, EndedTasks]:
    """Return the tasks that ended in the last hours, by type; one pass over an index that covers it."""
    by_index(tx)
    taken = seconds_between(BEGUN, tasks.c.ended_at)
    newest = _newest_ended(hours, tasks.c.type, tasks.c.status, taken.label("seconds")).limit(ENDED_LIMIT).subquery()
    step = func.round(newest.c.seconds * STEPS_A_SECOND).label("step")
    groups = select(
        newest.c.type, newest.c.status, step, func.count().label("number"), func.sum(newest.c.seconds).label("seconds")
    ).group_by(newest.c.type, newest.c.status, step)
    ended: dict[str, EndedTasks] = defaultdict(EndedTasks)
    for row in tx.execute(groups):
        ended[row.type].take(row)
    return {name: ended[name] for name in MEAN_TARGET}


def _newest_ended(hours: float, *columns: ColumnElement[Any]) -> Select[Any]:
    since = later(literal(-3600.0 * hours, Float))
    return select(*columns).where(tasks.c.ended_at > since).order_by(tasks.c.ended_at.desc())


def generation_figures(tx: Transaction, hours: float) -> dict[str, Any]:
    """Return the figures with their targets; `met` is null when there is nothing to judge yet."""
    ended = read_ended(tx, hours)
    counted = sum(sum(one.counts.values()) for one in ended.values())
    uncounted = _newest_ended(hours, tasks.c.ended_at).offset(ENDED_LIMIT).limit(1)
    return {
        "hours": hours,
        "types": [_show(name, one) for name, one in ended.items()],
        "poll_delay": _poll_delay(tx),
        "unfinished": _unfinished(tx),
        "counted": counted,
        "counted_is_more": counted >= ENDED_LIMIT and tx.execute(uncounted).first() is not None,
    }


def _show(name: str, ended: EndedTasks) -> dict[str, Any]:
    failed, completed = ended.failure_rate, ended.counts["completed"]
    mean = round(ended.seconds / completed, 2) if completed else None
    success = None if failed is None else round(1 - failed, 4)
    return {
        "type": name,
        **ended.counts,
        "success_rate": success,
        "success_target": SUCCESS_TARGET,
        "success_met": None if success is None else success > SUCCESS_TARGET,
        "mean_seconds": mean,
        "p95_seconds": ended.percentile(0.95),
        "mean_target": MEAN_TARGET[name],
        "mean_met": None if mean is None else mean < MEAN_TARGET[name],
    }


def _poll_delay(tx: Transaction) -> dict[str, Any]:
    """Return how long ago running tasks were polled; of very many, a sample."""
    by_index(tx)
    # In the order of the small index: else a database may read all tasks that ever ended.
    running = select(UNPOLLED.label("seconds")).where(IS_RUNNING).order_by(tasks.c.provider)
    some = running.limit(COUNT_LIMIT).subquery()
    asked = (
        func.count().label("running"),
        func.avg(some.c.seconds).label("mean"),
        func.max(some.c.seconds).label("longest"),
    )
    row = tx.execute(select(*asked)).one()
    return {
        "running": row.running,
        "mean_seconds": None if row.mean is None else round(row.mean, 2),
        "max_seconds": None if row.longest is None else round(row.longest, 2),
        "target": POLL_TARGET,
        "met": None if row.mean is None else row.mean < POLL_TARGET,
    }


def _unfinished(tx: Transaction) -> Mapping[str, int]:
    """Return how many tasks have not ended, counted up to the limit."""
    by_index(tx)

    def count(indexed: Column[Any], *status: ColumnElement[bool]) -> int:
        # Columns and order of a partial index, so that only this index is read.
        some = select(indexed).where(*status).order_by(indexed).limit(COUNT_LIMIT).subquery()
        return int(tx.execute(select(func.count()).select_from(some)).scalar_one())

    pending = count(tasks.c.deadline_at, IS_UNFINISHED, tasks.c.status == "pending")
    return {"pending": pending, "running": count(tasks.c.provider, IS_RUNNING)}


HOURS = 24.0
#: A rate of fewer tasks says nothing.
LEAST_ENDED = 20
FAILED_MOST = 0.1
#: Twice as long as the longest pause between two polls, and some more.
UNPOLLED_MOST = 300.0


class HealthCheck:
    """Reads the figures, then raises or resolves the alerts."""

    def __init__(self, context: JobContext) -> None:
        self._context = context

    def kind(self) -> JobKind:
        return JobKind(CHECK, self.run, time_limit=30.0, max_attempts=3)

    async def run(self, _job: Job) -> Outcome:
        database = self._context.database
        ended = await database.read(read_ended, HOURS)
        unpolled = await database.read(read_unpolled, self._context.providers)
        await database.run(write_alerts, ended, unpolled)
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
            raise_alert(tx, Severity.WARNING, "FAILURE_RATE_HIGH", message, subject=name)
        else:
            resolve_alert(tx, "FAILURE_RATE_HIGH", name)
    if unpolled is None:
        resolve_alert(tx, "TASKS_NOT_POLLED")
    else:
        raise_alert(tx, Severity.CRITICAL, "TASKS_NOT_POLLED", unpolled)


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
    asked = [providers[row.provider].query_lane.name for row in rows if row.provider in providers]
    paused = tx.execute(select(lanes.c.name).where(lanes.c.name.in_(asked), lanes.c.paused).order_by(lanes.c.name))
    stopped = ", ".join(paused.scalars())
    why = f" Paused: {stopped}; resume with `longtake lanes resume`." if stopped else ""
    return (
        f"{number:,} running tasks ({names}) were not polled for more than {UNPOLLED_MOST / 60:g} minutes,"
        f" the longest for {longest / 60:.0f}.{why or ' `longtake workers list` shows whether a worker runs.'}"
    )
