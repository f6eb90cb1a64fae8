"""Schedules: a job every so often or by cron, once over all machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from cronsim import CronSim, CronSimError
from sqlalchemy import select, update
from sqlalchemy.dialects import postgresql, sqlite

from longtake.db import Transaction
from longtake.db.dialects import NOW, SQLITE
from longtake.engine.errors import InvalidDefinition
from longtake.engine.jobs import Enqueued, JobRequest
from longtake.engine.tables import schedules
from longtake.errors import NotFound

if TYPE_CHECKING:
    from longtake.engine.engine import Engine

NAME_LIMIT = 100


@dataclass(frozen=True)
class Schedule:
    """Enqueue a kind ``every`` so many seconds, or at the times of a ``cron`` expression (UTC)."""

    name: str
    kind: str
    args: dict[str, Any] = field(default_factory=dict)
    every: float | None = None
    cron: str | None = None

    def __post_init__(self) -> None:
        if not 0 < len(self.name) <= NAME_LIMIT:
            raise InvalidDefinition(f"The schedule {self.name!r} must have a name of 1 to {NAME_LIMIT} characters.")
        # What could not be enqueued at its time is refused now.
        JobRequest(self.kind, self.args).checked_args()
        if (self.every is None) == (self.cron is None):
            raise InvalidDefinition(f"The schedule {self.name!r} needs either `every` or `cron`.")
        if self.every is not None and self.every < 1:
            raise InvalidDefinition(f"The schedule {self.name!r} has every={self.every!r}; 1 second is the least.")
        if self.cron is not None:
            try:
                CronSim(self.cron, datetime(2026, 1, 1, tzinfo=UTC))
            except CronSimError as error:
                raise InvalidDefinition(
                    f"The schedule {self.name!r} has the cron expression {self.cron!r}: {error}.",
                    hint="Five fields: minute hour day month weekday, such as '0 * * * *' for every full hour.",
                ) from error

    def following(self, moment: datetime) -> datetime:
        """Return the first tick after the moment. Ticks that were missed are not made up for."""
        if self.every is not None:
            return moment + timedelta(seconds=self.every)
        return next(CronSim(self.cron or "", moment))


def declare_schedules(tx: Transaction, declared: Sequence[Schedule]) -> None:
    """Make or change the schedules; a paused one stays paused, a changed interval starts again."""
    dialect = sqlite if tx.dialect == SQLITE else postgresql
    now = database_now(tx)
    for schedule in sorted(declared, key=lambda one: one.name):
        rhythm = {"every_seconds": schedule.every, "cron": schedule.cron}
        content = {"kind": schedule.kind, "args": schedule.args}
        values = {**rhythm, **content, "next_at": schedule.following(now)}
        first = dialect.insert(schedules).values(name=schedule.name, paused=False, **values).on_conflict_do_nothing()
        tx.execute(first)
        same = schedules.c.name == schedule.name
        tx.execute(update(schedules).where(same).values(**content))
        changed = (schedules.c.every_seconds.is_distinct_from(schedule.every)) | (
            schedules.c.cron.is_distinct_from(schedule.cron)
        )
        tx.execute(update(schedules).where(same, changed).values(**values))


def fire_due(tx: Transaction, engine: Engine) -> list[str]:
    """Enqueue every schedule whose time has come, and set its next; return their names.

    The row is taken and advanced in one transaction, so of two machines one fires and the other finds nothing due.
    """
    due = select(schedules).where(schedules.c.next_at <= NOW, ~schedules.c.paused)
    fired = []
    for row in tx.execute(due.with_for_update(skip_locked=True)).all():
        if row.kind not in engine.kinds:
            continue
        schedule = Schedule(row.name, row.kind, row.args, row.every_seconds, row.cron)
        _fire(tx, engine, schedule, next_at=schedule.following(database_now(tx)))
        fired.append(row.name)
    return fired


def schedule_is_due(tx: Transaction) -> bool:
    """Say whether any schedule is due: the cheap look before the transaction that writes."""
    due = select(schedules.c.name).where(schedules.c.next_at <= NOW, ~schedules.c.paused).limit(1)
    return tx.execute(due).first() is not None


def run_schedule(tx: Transaction, engine: Engine, name: str) -> Enqueued:
    """Enqueue a schedule's job now, besides its rhythm."""
    row = tx.execute(select(schedules).where(schedules.c.name == name).with_for_update()).first()
    if row is None:
        raise _no_schedule(name)
    return _fire(tx, engine, Schedule(row.name, row.kind, row.args, row.every_seconds, row.cron), next_at=None)


def pause_schedule(tx: Transaction, name: str, *, paused: bool) -> None:
    """Stop a schedule, or let it go on."""
    change = update(schedules).where(schedules.c.name == name).values(paused=paused)
    if tx.execute(change).rowcount == 0:
        raise _no_schedule(name)


def database_now(tx: Transaction) -> datetime:
    """Return the database's time."""
    moment: datetime = tx.execute(select(NOW)).scalar_one()
    return moment


def _fire(tx: Transaction, engine: Engine, schedule: Schedule, next_at: datetime | None) -> Enqueued:
    # The key keeps a slow job from piling up behind itself.
    job = engine.enqueue(tx, schedule.kind, schedule.args, key=f"schedule:{schedule.name}")
    values: dict[str, Any] = {"last_at": NOW, "last_job_id": job.id}
    if next_at is not None:
        values["next_at"] = next_at
    tx.execute(update(schedules).where(schedules.c.name == schedule.name).values(**values))
    return job


def _no_schedule(name: str) -> NotFound:
    return NotFound(f"There is no schedule {name!r}.", hint="`longtake schedules list` shows those there are.")
