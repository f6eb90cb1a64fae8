"""Leases: a worker's heartbeat renews one row for all its jobs; the jobs of a dead worker are rescued by the others.

Two witnesses are needed before a worker counts as dead: the database's clock says that its lease is over, *and* its
beat has not moved for a lease's length of the rescuer's own monotonic clock. So a clock that jumps forward kills
no worker, and one that jumps back keeps none alive. Leases differ in length: each worker's row says how long its own
is, and it is judged by that. On SQLite a new owner knows at once that all others are gone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, bindparam, delete, exists, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from longtake.clock import Clock
from longtake.db import Transaction
from longtake.db.dialects import NOW, POSTGRESQL, SQLITE, Identifier, later, seconds_until
from longtake.db.prepared import Prepared
from longtake.engine.jobs import Job
from longtake.engine.queue import CLAIMED
from longtake.engine.tables import jobs, workers

#: A worker whose beats are taken has always more than this part of its lease left: beats are less than half apart.
FRESH_PART = 0.4

_HELD = select(jobs.c.id).where(
    jobs.c.id == bindparam("job", type_=Identifier), jobs.c.lease_token == bindparam("token", type_=Identifier)
)
FENCE = {SQLITE: Prepared(_HELD), POSTGRESQL: Prepared(_HELD.with_for_update())}


#: Running jobs whose worker is gone.
ORPHANED = (jobs.c.state == "running", ~exists().where(workers.c.id == jobs.c.worker))


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a heartbeat learns: whether we still count as alive, which jobs are ours, which are to be cancelled."""

    alive: bool
    held: dict[str, str]
    cancelling: frozenset[str]


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker's row as a rescuer reads it."""

    id: str
    beat: int
    incarnation: str | None
    lease_left: float
    lease_seconds: float

    def may_exist(self, ours: str | None) -> bool:
        """Say whether its process can exist; ``ours`` is the database's incarnation.

        Where one process owns the database, workers of earlier owners are gone even if their lease still runs.
        """
        return ours in {None, self.incarnation}


def register_worker(tx: Transaction, worker: str, name: str, incarnation: str | None, lease_seconds: float) -> None:
    """Begin a worker's life. A second time changes nothing: the answer to the first may have been lost."""
    row = {"id": worker, "name": name, "incarnation": incarnation, "beat": 0, "lease_seconds": lease_seconds}
    begin = (sqlite if tx.dialect == SQLITE else postgresql).insert(workers)
    begin = begin.values(**row, lease_until=later(lease_seconds), started_at=NOW)
    tx.execute(begin.on_conflict_do_nothing(index_elements=["id"]))


def beat(tx: Transaction, worker: str, lease_seconds: float) -> Pulse:
    """Renew the worker's lease, which covers all its jobs, and compare what it holds."""
    change = {"beat": workers.c.beat + 1, "lease_until": later(lease_seconds)}
    alive = tx.execute(update(workers).where(workers.c.id == worker).values(**change)).rowcount == 1
    mine = select(jobs.c.id, jobs.c.lease_token, jobs.c.cancel_requested_at)
    rows = tx.execute(mine.where(jobs.c.state == "running", jobs.c.worker == worker)).all()
    cancelling = frozenset(row.id for row in rows if row.cancel_requested_at is not None)
    return Pulse(alive, {row.id: row.lease_token for row in rows}, cancelling)


def retire_worker(tx: Transaction, worker: str) -> None:
    """End a worker's life in order: it has given everything back."""
    tx.execute(delete(workers).where(workers.c.id == worker))


def find_workers(tx: Transaction) -> tuple[list[WorkerState], int]:
    """Return all workers, and how many running jobs have no worker at all."""
    left = seconds_until(workers.c.lease_until).label("lease_left")
    rows = tx.execute(select(workers.c.id, workers.c.beat, workers.c.incarnation, left, workers.c.lease_seconds))
    seen = [WorkerState(row.id, row.beat, row.incarnation, row.lease_left, row.lease_seconds) for row in rows]
    orphans = tx.execute(select(func.count()).select_from(jobs).where(*ORPHANED)).scalar_one()
    return seen, int(orphans)


def is_alive(worker: WorkerState, ours: str | None) -> bool:
    """Say whether a worker is shown as alive: its lease runs and its process can exist. Removal takes two witnesses."""
    return worker.lease_left > 0 and worker.may_exist(ours)


class Witness:
    """A rescuer's memory of whose beat has stood still, by its own monotonic clock."""

    def __init__(self, clock: Clock, lease_seconds: float, incarnation: str | None) -> None:
        self._clock = clock
        self._lease = lease_seconds
        self._incarnation = incarnation
        self._since: dict[str, tuple[int, float]] = {}
        self._looked_at = -math.inf

    def dead(self, seen: Sequence[WorkerState], myself: str) -> list[WorkerState]:
        """Return the others that both witnesses call dead.

        A rescuer that could not look or beat lately is no judge: perhaps no worker could. All get a lease's time again.
        """
        now = self._clock.monotonic()
        before, self._since = self._since, {}
        looked_at, self._looked_at = self._looked_at, now
        fresh = any(one.id == myself and one.lease_left > self._lease * FRESH_PART for one in seen)
        if not fresh or now - looked_at > self._lease / 2:
            before = {}
        for one in seen:
            known = before.get(one.id)
            self._since[one.id] = known if known is not None and known[0] == one.beat else (one.beat, now)
        return [one for one in seen if one.id != myself and self._is_dead(one, now)]

    def _is_dead(self, one: WorkerState, now: float) -> bool:
        if not one.may_exist(self._incarnation):
            return True
        # More lease left than it is ever given: the database's clock went back, and says nothing.
        over_by_database = one.lease_left < 0 or one.lease_left > one.lease_seconds * 1.5
        # A rescuer with a long lease looks rarely: it may have missed that no worker could beat for a short while.
        return over_by_database and now - self._since[one.id][1] >= max(one.lease_seconds, self._lease)


def remove_dead_workers(tx: Transaction, dead: Sequence[WorkerState]) -> list[str]:
    """Remove workers that have not beaten since they were seen; return who is really gone."""
    gone = []
    for one in sorted(dead, key=lambda each: each.id):
        rows = tx.execute(delete(workers).where(workers.c.id == one.id, workers.c.beat == one.beat))
        if rows.rowcount == 1:
            gone.append(one.id)
    return gone


def fenced(tx: Transaction, job: Job) -> bool:
    """Say whether the job's lease still holds, and keep it so until the commit."""
    return bool(tx.run(FENCE[tx.dialect], job=job.id, token=job.lease_token))


def mark_alone(tx: Transaction, job: Job) -> bool:
    """Record that a suspect runs with nothing beside it: if the worker dies now, it was this job."""
    change = update(jobs).where(jobs.c.id == job.id, jobs.c.lease_token == job.lease_token).values(alone=True)
    return tx.execute(change).rowcount == 1


def return_jobs(tx: Transaction, leases: Sequence[tuple[str, str]]) -> None:
    """Put back, unspent, jobs that were leased to a worker that never heard of it."""
    back = {"state": "ready", "lease_token": None, "worker": None, "attempt": jobs.c.attempt - 1}
    for job_id, token in sorted(leases):
        tx.execute(update(jobs).where(jobs.c.id == job_id, jobs.c.lease_token == token).values(**back))


def job_from(row: Row[Any]) -> Job:
    """Build a job from a whole row of the live table."""
    return Job(**{name: getattr(row, name) for name in CLAIMED})
