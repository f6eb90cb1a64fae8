"""Kinds, lanes, schedules and workers as operators see them. Counts stop at a limit: a full queue must not slow a look.

A count comes with ``…_is_more``: true says that there are more than counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, literal_column, select

from longtake.db.dialects import seconds_until
from longtake.engine.lane_store import all_lanes
from longtake.engine.leases import find_workers, is_alive
from longtake.engine.queries import plain
from longtake.engine.tables import job_kinds, jobs, schedules, workers

if TYPE_CHECKING:
    from longtake.db import Transaction
    from longtake.engine.engine import Engine
    from longtake.engine.queue import QueueName

COUNT_LIMIT = 10_000
#: More than all workers together ever run; beyond it the figures are a sample.
RUNNING_LIMIT = 100_000


@dataclass(slots=True)
class Running:
    """How many jobs run, by whom and where."""

    by_kind: Counter[str] = field(default_factory=Counter)
    by_lane: Counter[str] = field(default_factory=Counter)
    by_worker: Counter[str] = field(default_factory=Counter)


def list_kinds(tx: Transaction, engine: Engine) -> list[dict[str, Any]]:
    """Return every kind that was ever declared, with what waits and runs of it."""
    waiting = _waiting(tx, engine)
    running = _running(tx).by_kind
    totals: dict[str, int] = defaultdict(int)
    for queue, count in waiting.items():
        totals[queue.kind] += count
    return [
        {**plain(row), "paused": bool(row.paused), **_counted("ready", totals[row.name]), "running": running[row.name]}
        for row in tx.execute(select(job_kinds).order_by(job_kinds.c.name))
    ]


def list_lanes(tx: Transaction, engine: Engine) -> list[dict[str, Any]]:
    """Return every lane with its limits, where they stand, and what waits and runs in it."""
    totals: dict[str, int] = defaultdict(int)
    for queue, count in _waiting(tx, engine).items():
        totals[queue.lane] += count
    running = _running(tx).by_lane
    return [
        {
            "name": view.lane.name,
            "max_running": view.lane.max_running,
            "rate_count": view.lane.rate[0] if view.lane.rate else None,
            "rate_seconds": view.lane.rate[1] if view.lane.rate else None,
            "burst": view.lane.burst,
            "spacing_seconds": view.lane.spacing,
            "paused": view.paused,
            "paused_reason": view.paused_reason,
            "blocked_seconds": max(view.state.blocked or 0.0, 0.0),
            "slowdown": view.state.factor(),
            **_counted("ready", totals[view.lane.name]),
            "running": running[view.lane.name],
        }
        for view in all_lanes(tx)
    ]


def list_schedules(tx: Transaction) -> list[dict[str, Any]]:
    """Return every schedule with its last and next time."""
    return [
        {**plain(row), "paused": bool(row.paused)} for row in tx.execute(select(schedules).order_by(schedules.c.name))
    ]


def list_workers(tx: Transaction, engine: Engine) -> list[dict[str, Any]]:
    """Return the workers with what each runs. One that is not alive is about to lose its jobs to another."""
    seen, _orphans = find_workers(tx)
    alive = {one.id for one in seen if is_alive(one, engine.database.incarnation)}
    running = _running(tx).by_worker
    left = seconds_until(workers.c.lease_until).label("lease_left_seconds")
    rows = tx.execute(select(workers, left).order_by(workers.c.started_at))
    return [{**plain(row), "alive": row.id in alive, "running": running[row.id]} for row in rows]


def count_waiting(tx: Transaction, engine: Engine) -> dict[str, Any]:
    """Return how many jobs wait and run in all."""
    return {
        **_counted("ready", sum(_waiting(tx, engine).values())),
        "running": sum(_running(tx).by_lane.values()),
    }


def _waiting(tx: Transaction, engine: Engine) -> dict[QueueName, int]:
    """Count each queue along its own range of the claim index, up to the limit."""
    counts = {}
    for head in engine.queue.heads(tx):
        queue = head.queue
        here = (jobs.c.lane == queue.lane, jobs.c.kind == queue.kind, jobs.c.priority == queue.priority)
        rows = select(jobs.c.lane).where(jobs.c.state == literal_column("'ready'"), *here).limit(COUNT_LIMIT + 1)
        counts[queue] = int(tx.execute(select(func.count()).select_from(rows.subquery())).scalar_one())
    return counts


def _running(tx: Transaction) -> Running:
    query = select(jobs.c.kind, jobs.c.lane, jobs.c.worker).where(jobs.c.state == literal_column("'running'"))
    sample = query.limit(RUNNING_LIMIT).subquery()
    groups = select(sample, func.count().label("number")).group_by(sample.c.kind, sample.c.lane, sample.c.worker)
    running = Running()
    for row in tx.execute(groups):
        running.by_kind[row.kind] += row.number
        running.by_lane[row.lane] += row.number
        running.by_worker[row.worker] += row.number
    return running


def _counted(name: str, count: int) -> dict[str, Any]:
    return {name: min(count, COUNT_LIMIT), f"{name}_is_more": count > COUNT_LIMIT}
