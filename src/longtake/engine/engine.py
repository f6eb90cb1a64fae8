"""The engine: kinds, lanes and schedules declared once; jobs enqueued, claimed and settled in transactions."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from longtake.clock import Clock, SystemClock, new_id
from longtake.db.dialects import SQLITE
from longtake.engine.claims import Claim, claim_from_lane, claim_unlimited
from longtake.engine.errors import InvalidDefinition, UnknownKind, UnknownLane
from longtake.engine.jobs import Enqueued, JobRequest
from longtake.engine.lane_store import declare_lanes
from longtake.engine.lanes import Lane
from longtake.engine.queue import NewJob, Queue, queue_for
from longtake.engine.schedules import Schedule, declare_schedules
from longtake.engine.settlement import finish
from longtake.engine.tables import job_kinds, jobs, lanes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from longtake.db import Database, Transaction
    from longtake.engine.jobs import Job
    from longtake.engine.kinds import JobKind
    from longtake.engine.outcomes import Verdict
    from longtake.engine.queue import QueueName

DEFAULT_LANE = Lane("default")


@dataclass(frozen=True, slots=True)
class _Facts:
    """What enqueueing must know of a kind, declared here or in another process."""

    lane: str
    priority: int
    max_attempts: int


class Engine:
    """One per process. Its functions take the caller's transaction: a job is part of what the caller writes."""

    def __init__(
        self,
        database: Database,
        kinds: Iterable[JobKind] = (),
        lanes: Iterable[Lane] = (),
        schedules: Iterable[Schedule] = (),
        *,
        clock: Clock | None = None,
        random_source: random.Random | None = None,
        on_quarantine: Callable[[Transaction, Job], None] | None = None,
    ) -> None:
        self.database = database
        self.clock = clock or SystemClock()
        self.random = random_source or random.Random()
        self.queue: Queue = queue_for(database.dialect)
        self.kinds: dict[str, JobKind] = {}
        for kind in kinds:
            if kind.name in self.kinds:
                raise InvalidDefinition(f"The job kind {kind.name!r} is declared twice.")
            self.kinds[kind.name] = kind
        self.lanes = {lane.name: lane for lane in (DEFAULT_LANE, *lanes)}
        self.schedules = list(schedules)
        self.on_quarantine = on_quarantine
        self._facts = {kind.name: _Facts(kind.lane, kind.priority, kind.max_attempts) for kind in self.kinds.values()}
        self._known_lanes = set(self.lanes)

    async def start(self) -> None:
        """Write what other processes and triggers must know. Repeating it changes nothing."""
        await self.database.run(self.declare)

    def declare(self, tx: Transaction) -> None:
        """Declare kinds, lanes and schedules; what operators paused or set stays so."""
        missing = {kind.lane for kind in self.kinds.values()} - set(self.lanes)
        if missing:
            raise InvalidDefinition(f"Lanes that kinds use are not declared: {', '.join(sorted(missing))}.")
        declare_lanes(tx, self.lanes.values())
        upsert = (sqlite if tx.dialect == SQLITE else postgresql).insert(job_kinds)
        changing = ("lane", "priority", "max_attempts")
        # In one order everywhere, so that two processes that start together cannot deadlock.
        for name in sorted(self.kinds):
            kind = self.kinds[name]
            row = {"name": name, "lane": kind.lane, "priority": kind.priority, "max_attempts": kind.max_attempts}
            change = {column: upsert.excluded[column] for column in changing}
            tx.execute(upsert.values(**row, paused=False).on_conflict_do_update(index_elements=["name"], set_=change))
        declare_schedules(tx, self.schedules)

    # -- enqueue -------------------------------------------------------------------------------------------------

    def enqueue(
        self,
        tx: Transaction,
        kind: str,
        args: Any = None,
        *,
        key: str | None = None,
        delay: float = 0.0,
        lane: str | None = None,
        priority: int | None = None,
        subject: str | None = None,
        request_id: str | None = None,
    ) -> Enqueued:
        """Write one job in the caller's transaction; it runs only if, and after, that commits."""
        args = {} if args is None else args
        request = JobRequest(kind, args, key, delay, lane, priority, None, subject, request_id)
        return self.enqueue_many(tx, [request])[0]

    def enqueue_many(self, tx: Transaction, requests: Sequence[JobRequest]) -> list[Enqueued]:
        """Write many jobs in the caller's transaction: all of them, or none when one of them is refused."""
        if not requests:
            return []
        rows = [self._row(tx, request) for request in requests]
        # In order of their keys, so that two transactions that enqueue the same jobs cannot deadlock.
        inserted = self.queue.insert(tx, sorted(rows, key=lambda row: (row.kind, row.key or "")))
        if inserted:
            tx.signal("jobs")
        if len(inserted) == len(rows):
            return [Enqueued(row.id, created=True) for row in rows]
        return [Enqueued(row.id, created=True) if row.id in inserted else self._twin(tx, row) for row in rows]

    def _row(self, tx: Transaction, request: JobRequest) -> NewJob:
        facts = self._facts.get(request.kind) or self._declared_elsewhere(tx, request.kind)
        lane = request.lane or facts.lane
        if lane not in self._known_lanes:
            self._require_lane(tx, lane)
        return NewJob(
            new_id(),
            request.kind,
            request.key,
            lane,
            facts.priority if request.priority is None else request.priority,
            request.delay,
            request.max_attempts or facts.max_attempts,
            request.checked_args(),
            request.subject,
            request.request_id,
        )

    def _declared_elsewhere(self, tx: Transaction, kind: str) -> _Facts:
        """Look for a kind whose handler lives in another process."""
        columns = (job_kinds.c.lane, job_kinds.c.priority, job_kinds.c.max_attempts)
        row = tx.execute(select(*columns).where(job_kinds.c.name == kind)).first()
        if row is None:
            known = tx.execute(select(job_kinds.c.name).order_by(job_kinds.c.name)).scalars()
            names = ", ".join(known) or "none yet"
            raise UnknownKind(f"There is no job kind {kind!r}.", hint=f"Declared kinds: {names}.")
        facts = self._facts[kind] = _Facts(row.lane, row.priority, row.max_attempts)
        return facts

    def _require_lane(self, tx: Transaction, lane: str) -> None:
        if tx.execute(select(lanes.c.name).where(lanes.c.name == lane)).first() is None:
            raise UnknownLane(f"There is no lane {lane!r}.")
        self._known_lanes.add(lane)

    def _twin(self, tx: Transaction, row: NewJob) -> Enqueued:
        """Return the live job with the same key. If it has just ended, there is room for ours after all."""
        while True:
            found = tx.execute(select(jobs.c.id).where(jobs.c.kind == row.kind, jobs.c.key == row.key)).scalar()
            if found is not None:
                return Enqueued(found, created=found == row.id)
            if self.queue.insert(tx, [row]):
                tx.signal("jobs")
                return Enqueued(row.id, created=True)

    # -- what workers do -----------------------------------------------------------------------------------------

    def exchange(
        self,
        tx: Transaction,
        verdicts: Sequence[Verdict],
        queues: Sequence[QueueName],
        worker: str,
        wanted: int,
        look: bool,  # noqa: FBT001 - called through Database.run, which passes positions only
    ) -> Claim:
        """Finish what is finished and claim what is next, in one transaction; ``look`` around in any case."""
        if verdicts:
            finish(tx, self, verdicts)
        if wanted <= 0:
            return Claim()
        return self._claimed(claim_unlimited(tx, self.queue, queues, worker, wanted, look=look))

    def finish(self, tx: Transaction, verdicts: Sequence[Verdict]) -> set[str]:
        """Apply verdicts with all their effects; return the ids of the jobs that were still ours."""
        return finish(tx, self, verdicts)

    def claim_lane(
        self,
        tx: Transaction,
        lane: str,
        queues: Sequence[QueueName],
        worker: str,
        wanted: int,
        claim_seconds: float = 0.0,
    ) -> Claim:
        """Claim from one limited lane as much as its limits permit now; a claim took so long the last times."""
        now = self.clock.monotonic()
        claim = claim_from_lane(
            tx, self.queue, lane, queues, worker, wanted, counted_from=now, claim_seconds=claim_seconds
        )
        return self._claimed(claim)

    def _claimed(self, claim: Claim) -> Claim:
        for job in claim.jobs:
            job.engine = self
        return claim
