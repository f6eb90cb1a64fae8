"""Jobs, kinds, lanes, schedules and workers as operators see them: plain data with ISO times. Nothing here writes.

Counts stop at a limit: a full queue must not slow a look. A count comes with ``…_is_more``: true says that there are
more than counted.
"""

import heapq
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Row, Select, Table, Text, func, literal_column, null, select
from sqlalchemy.sql.elements import ColumnElement

from longtake.db import Transaction
from longtake.db.dialects import SQLITE, seconds_until
from longtake.engine.control import no_job
from longtake.engine.engine import Engine
from longtake.engine.lane_store import all_lanes, limits_of
from longtake.engine.leases import find_workers, is_alive
from longtake.engine.tables import events, job_attempts, job_kinds, jobs, jobs_ended, schedules, workers

LIST_LIMIT = 500
LIVE_STATES = ("ready", "running")
ENDED_STATES = ("done", "failed", "cancelled")
#: Events have no index by subject, which would cost every job that ends; so a job's are looked for among the newest.
EVENTS_LOOKED_AT = 20_000
TIMELINE_LIMIT = 200
COUNT_LIMIT = 10_000
#: More than all workers together ever run; beyond it the figures are a sample.
RUNNING_LIMIT = 100_000

#: Arguments and memos are left out: 500 rows of them would be 64 MB.
LISTED = (
    "id", "kind", "state", "lane", "priority", "attempt", "max_attempts", "crashes", "snoozes", "key", "subject",
    "request_id", "error", "worker", "created_at", "started_at",
)  # fmt: skip
ONLY_LIVE = ("due_at", "cancel_requested_at")


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list; what is None does not matter."""

    state: str | None = None
    kind: str | None = None
    lane: str | None = None
    error_code: str | None = None
    subject: str | None = None
    request_id: str | None = None


def list_jobs(
    tx: Transaction, which: JobFilter, *, before: str | None = None, limit: int = 50
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the newest jobs first, live and ended ones together, and the cursor for those before them, if any."""
    limit = min(limit, LIST_LIMIT)
    tables = (
        [jobs] if which.state in LIVE_STATES else [jobs_ended] if which.state in ENDED_STATES else [jobs, jobs_ended]
    )
    found = [tx.execute(_page(tx, table, which, before, limit + 1)).all() for table in tables]
    rows = list(heapq.merge(*found, key=lambda row: str(row.id), reverse=True))
    cursor = rows[limit - 1].id if len(rows) > limit else None
    return [plain(row) for row in rows[:limit]], cursor


def show_job(tx: Transaction, job_id: str) -> dict[str, Any]:
    """Return all there is to know about a job: its row, every attempt, who runs it now, and its events."""
    row = tx.execute(select(jobs).where(jobs.c.id == job_id)).first()
    row = row or tx.execute(select(jobs_ended).where(jobs_ended.c.id == job_id)).first()
    if row is None:
        raise no_job(job_id)
    job = plain(row)
    # A lease token is what lets a worker write: it is shown to no one.
    job.pop("lease_token", None)
    return {
        "job": job,
        "attempts": _attempts(tx, job_id),
        "worker": _worker(tx, row.worker) if row.state == "running" else None,
        "events": _events(tx, job_id),
    }


def plain(row: Row[Any]) -> dict[str, Any]:
    """Return a row as JSON can hold it: times as ISO text."""
    return {
        # SQLAlchemy's names are a kind of str that not every JSON encoder takes.
        str(name): value.isoformat() if isinstance(value, datetime) else value
        for name, value in row._mapping.items()  # noqa: SLF001 - SQLAlchemy's public name for a row's columns
    }


def _page(tx: Transaction, table: Table, which: JobFilter, before: str | None, limit: int) -> Select[Any]:
    live = table is jobs
    columns: list[ColumnElement[Any]] = [table.c[name] for name in LISTED]
    columns += [table.c[name] if live else null().label(name) for name in ONLY_LIVE]
    columns.append(null().label("ended_at") if live else table.c.ended_at)
    query = select(*columns).where(*_conditions(table, which))
    if before is not None:
        query = query.where(table.c.id < before)
    order = table.c.id.desc()
    if tx.dialect == SQLITE and which.state in {"running", "failed"}:
        # Few of many rows, each state with an index of its own: the plus keeps SQLite from walking all ids instead.
        order = literal_column("+id").desc()
    return query.order_by(order).limit(limit)


def _conditions(table: Table, which: JobFilter) -> list[ColumnElement[bool]]:
    conditions = [
        table.c[name] == getattr(which, name)
        for name in ("state", "kind", "lane", "subject", "request_id")
        if getattr(which, name) is not None
    ]
    if which.error_code is not None:
        conditions.append(table.c.error.op("->>", return_type=Text())(literal_column("'code'")) == which.error_code)
    return conditions


def _attempts(tx: Transaction, job_id: str) -> list[dict[str, Any]]:
    query = select(job_attempts).where(job_attempts.c.job_id == job_id).order_by(job_attempts.c.ended_at.desc())
    rows = tx.execute(query.limit(TIMELINE_LIMIT)).all()
    attempts = [plain(row) for row in reversed(rows)]
    for attempt in attempts:
        del attempt["job_id"]
    return attempts


def _worker(tx: Transaction, worker: str | None) -> dict[str, Any] | None:
    left = seconds_until(workers.c.lease_until).label("lease_left_seconds")
    row = tx.execute(select(workers, left).where(workers.c.id == worker)).first()
    return None if row is None else plain(row)


def _events(tx: Transaction, job_id: str) -> list[dict[str, Any]]:
    columns = (events.c.at, events.c.type, events.c.subject, events.c.data, events.c.sequence)
    # In the primary key's order on either database, so that the newest are found without a sort.
    newest = (events.c.sequence,) if tx.dialect == SQLITE else (events.c.transaction_id, events.c.sequence)
    recent = select(*columns).order_by(*(column.desc() for column in newest)).limit(EVENTS_LOOKED_AT).subquery()
    query = select(recent.c.at, recent.c.type, recent.c.data).where(recent.c.subject == job_id)
    rows = tx.execute(query.order_by(recent.c.sequence.desc()).limit(TIMELINE_LIMIT)).all()
    return [plain(row) for row in reversed(rows)]


def list_kinds(tx: Transaction, engine: Engine) -> list[dict[str, Any]]:
    """Return every kind that was ever declared, with what waits and runs of it."""
    waiting, running = _waiting(tx, engine, "kind"), _running(tx, "kind")
    return [
        {**plain(row), "paused": bool(row.paused), **_ready(waiting[row.name]), "running": running[row.name]}
        for row in tx.execute(select(job_kinds).order_by(job_kinds.c.name))
    ]


def list_lanes(tx: Transaction, engine: Engine) -> list[dict[str, Any]]:
    """Return every lane with its limits, where they stand, and what waits and runs in it."""
    waiting, running = _waiting(tx, engine, "lane"), _running(tx, "lane")
    return [
        {
            "name": view.lane.name,
            **limits_of(view.lane),
            "paused": view.paused,
            "paused_reason": view.paused_reason,
            "blocked_seconds": max(view.state.blocked or 0.0, 0.0),
            "slowdown": view.state.factor(),
            **_ready(waiting[view.lane.name]),
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
    running = _running(tx, "worker")
    left = seconds_until(workers.c.lease_until).label("lease_left_seconds")
    rows = tx.execute(select(workers, left).order_by(workers.c.started_at))
    return [{**plain(row), "alive": row.id in alive, "running": running[row.id]} for row in rows]


def count_waiting(tx: Transaction, engine: Engine) -> dict[str, Any]:
    """Return how many jobs wait and run in all."""
    return {**_ready(_waiting(tx, engine, "lane").total()), "running": _running(tx, "lane").total()}


def _waiting(tx: Transaction, engine: Engine, by: Literal["kind", "lane"]) -> Counter[str]:
    """Count each queue along its own range of the claim index, up to the limit."""
    counts: Counter[str] = Counter()
    for head in engine.queue.heads(tx):
        queue = head.queue
        here = (jobs.c.lane == queue.lane, jobs.c.kind == queue.kind, jobs.c.priority == queue.priority)
        rows = select(jobs.c.lane).where(jobs.c.state == literal_column("'ready'"), *here).limit(COUNT_LIMIT + 1)
        counts[getattr(queue, by)] += int(tx.execute(select(func.count()).select_from(rows.subquery())).scalar_one())
    return counts


def _running(tx: Transaction, by: Literal["kind", "lane", "worker"]) -> Counter[str]:
    query = select(jobs.c[by].label("name")).where(jobs.c.state == literal_column("'running'"))
    sample = query.limit(RUNNING_LIMIT).subquery()
    groups = select(sample.c.name, func.count().label("number")).group_by(sample.c.name)
    return Counter({row.name: row.number for row in tx.execute(groups)})


def _ready(count: int) -> dict[str, Any]:
    return {"ready": min(count, COUNT_LIMIT), "ready_is_more": count > COUNT_LIMIT}
