"""The engine: kinds, lanes and schedules declared once; jobs enqueued, claimed and settled in transactions."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.dialects import postgresql, sqlite

from longtake.clock import Clock, SystemClock, new_id
from longtake.db import Database, Transaction
from longtake.db.dialects import POSTGRESQL, SQLITE
from longtake.engine.errors import InvalidDefinition, UnknownKind, UnknownLane
from longtake.engine.events import append_event
from longtake.engine.jobs import Enqueued, Job, JobRequest
from longtake.engine.kinds import JobKind, Settlement
from longtake.engine.lane_store import (
    LANE_BUSY_SECONDS,
    LANE_FULL_SECONDS,
    declare_lanes,
    hold_lane,
    lock_lane,
    running_in,
    save_state,
)
from longtake.engine.lanes import Lane, next_permit, permits
from longtake.engine.outcomes import Verdict
from longtake.engine.queue import Claim, Ending, NewJob, PutBack, Queue, QueueName
from longtake.engine.queue_postgresql import PostgresqlQueue
from longtake.engine.queue_sqlite import SqliteQueue
from longtake.engine.schedules import Schedule, declare_schedules
from longtake.engine.tables import job_kinds, jobs, lanes

DEFAULT_LANE = Lane("default")
QUEUES: dict[str, type[Queue]] = {SQLITE: SqliteQueue, POSTGRESQL: PostgresqlQueue}


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
        self.queue = QUEUES[database.dialect]()
        self.kinds: dict[str, JobKind] = {}
        for kind in kinds:
            if kind.name in self.kinds:
                raise InvalidDefinition(f"The job kind {kind.name!r} is declared twice.")
            self.kinds[kind.name] = kind
        self.lanes = {lane.name: lane for lane in (DEFAULT_LANE, *lanes)}
        self.schedules = list(schedules)
        self.on_quarantine = on_quarantine
        #: What enqueueing must know of a kind, declared here or in another process: lane, priority, max_attempts.
        self._facts: dict[str, JobKind | Row[Any]] = dict(self.kinds)
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
        # In one order everywhere, so that two processes that start together cannot deadlock.
        for name in sorted(self.kinds):
            kind = self.kinds[name]
            facts = {"lane": kind.lane, "priority": kind.priority, "max_attempts": kind.max_attempts}
            new = upsert.values(name=name, paused=False, **facts)
            tx.execute(new.on_conflict_do_update(index_elements=["name"], set_=facts))
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
        request = JobRequest(kind, {} if args is None else args, key, delay, lane, priority, None, subject, request_id)
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
            if tx.execute(select(lanes.c.name).where(lanes.c.name == lane)).first() is None:
                raise UnknownLane(f"There is no lane {lane!r}.")
            self._known_lanes.add(lane)
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

    def _declared_elsewhere(self, tx: Transaction, kind: str) -> Row[Any]:
        """Look for a kind whose handler lives in another process."""
        columns = (job_kinds.c.lane, job_kinds.c.priority, job_kinds.c.max_attempts)
        row = tx.execute(select(*columns).where(job_kinds.c.name == kind)).first()
        if row is None:
            known = tx.execute(select(job_kinds.c.name).order_by(job_kinds.c.name)).scalars()
            hint = f"Declared kinds: {', '.join(known) or 'none yet'}."
            raise UnknownKind(f"There is no job kind {kind!r}.", hint=hint)
        self._facts[kind] = row
        return row

    def _twin(self, tx: Transaction, row: NewJob) -> Enqueued:
        """Return the live job with the same key. If it has just ended, there is room for ours after all."""
        while True:
            found = tx.execute(select(jobs.c.id).where(jobs.c.kind == row.kind, jobs.c.key == row.key)).scalar()
            if found is not None:
                return Enqueued(found, created=found == row.id)
            if self.queue.insert(tx, [row]):
                tx.signal("jobs")
                return Enqueued(row.id, created=True)

    # -- claim ---------------------------------------------------------------------------------------------------

    def exchange(
        self,
        tx: Transaction,
        verdicts: Sequence[Verdict],
        queues: Sequence[QueueName],
        worker: str,
        wanted: int,
        look: bool,  # noqa: FBT001 - called through Database.run, which passes positions only
    ) -> Claim:
        """Finish what is finished and claim what is next from lanes without limits; ``look`` around in any case."""
        if verdicts:
            self.finish(tx, verdicts)
        if wanted <= 0:
            return Claim()
        claimed = self._lease(tx, queues, worker, wanted, limited=False) if queues else []
        return Claim(claimed, self.queue.heads(tx) if look or len(claimed) < wanted else None)

    def claim_lane(
        self,
        tx: Transaction,
        name: str,
        queues: Sequence[QueueName],
        worker: str,
        wanted: int,
        claim_seconds: float = 0.0,
    ) -> Claim:
        """Claim what a limited lane permits. Its row is locked to the commit. The last claims took so many seconds."""
        counted_from = self.clock.monotonic()
        view = lock_lane(tx, name)
        if view is None:
            return Claim(next_in=LANE_BUSY_SECONDS)
        running = running_in(tx, name) if view.lane.max_running is not None else 0
        starts, after = permits(view.lane, view.state, running, wanted, claim_seconds)
        claimed: list[Job] = []
        if starts:
            claimed = self._lease(tx, queues, worker, len(starts), limited=True)
            starts, after = permits(view.lane, view.state, running, len(claimed), claim_seconds)
        # Also without a start: after the clock went back, the wait that is left is counted from this moment on.
        if after != view.state:
            save_state(tx, name, after)
        full = view.lane.max_running is not None and running + len(claimed) >= view.lane.max_running
        next_in = LANE_FULL_SECONDS if full else next_permit(view.lane, after)
        if starts and not full:
            next_in = max(next_in - view.lane.horizon(claim_seconds) / 2, 0.0)
        lifetime = view.lane.permit_lifetime if view.lane.timed else None
        return Claim(claimed, None, starts, lifetime, counted_from, next_in, full)

    def _lease(
        self, tx: Transaction, queues: Sequence[QueueName], worker: str, wanted: int, *, limited: bool
    ) -> list[Job]:
        claimed = self.queue.claim(tx, queues, new_id(), worker, wanted, limited=limited)
        for job in claimed:
            job.engine = self
        return sorted(claimed, key=lambda job: (job.priority, job.due_at))

    # -- the end of a run ----------------------------------------------------------------------------------------

    def finish(self, tx: Transaction, verdicts: Sequence[Verdict]) -> set[str]:
        """Write a job's transition, its domain rows, its follow-up jobs and its events, all in this transaction.

        Every transition is fenced by the lease token. A job that is no longer ours leaves no trace of this run: not in
        its own row, not in the domain, not in the queue. Returns the ids of the jobs that were still ours.

        Rows are locked in one order: jobs by id, what settle functions lock, lanes by name, then the keys of new jobs.
        """
        endings = [verdict.change for verdict in verdicts if isinstance(verdict.change, Ending)]
        returned = [verdict.change for verdict in verdicts if isinstance(verdict.change, PutBack)]
        held = self.queue.end(tx, endings, returned) if endings else set()
        if returned:
            held |= self.queue.put_back(tx, returned)
        ours = [verdict for verdict in verdicts if verdict.job.id in held]
        self._settle(tx, ours)
        _hold_lanes(tx, ours)
        self.enqueue_many(tx, [request for verdict in ours if verdict.outcome for request in verdict.outcome.then])
        return held

    def split(self, verdicts: Sequence[Verdict]) -> list[list[Verdict]]:
        """Return the verdicts in parts, one for each transaction.

        On PostgreSQL a transaction settles jobs of one kind: what the settle functions of two kinds lock, one after the
        other, another worker could lock crosswise. SQLite has one writer at a time.
        """
        parts: dict[str, list[Verdict]] = defaultdict(list)
        for verdict in verdicts:
            kind = self.kinds.get(verdict.job.kind)
            settles = verdict.outcome is not None and kind is not None and kind.settle is not None
            parts[verdict.job.kind if settles and self.database.dialect == POSTGRESQL else ""].append(verdict)
        # Jobs that have nothing to settle go along with any others.
        rest = parts.pop("", [])
        first, *others = list(parts.values()) or [[]]
        return [rest + first, *others]

    def _settle(self, tx: Transaction, verdicts: Sequence[Verdict]) -> None:
        """Hand each kind its outcomes, the engine's own verdicts among them, as one list."""
        by_kind: dict[str, list[Settlement]] = defaultdict(list)
        for verdict in verdicts:
            # A job of a kind unknown here can only be put back, and has nothing to settle.
            if verdict.outcome is not None and verdict.job.kind in self.kinds:
                by_kind[verdict.job.kind].append(Settlement(verdict.job, verdict.outcome))
                if isinstance(verdict.change, Ending) and verdict.change.outcome == "crashed":
                    append_event(tx, "job.quarantined", subject=verdict.job.id, data={"kind": verdict.job.kind})
                    if self.on_quarantine is not None:
                        self.on_quarantine(tx, verdict.job)
        for name in sorted(by_kind):
            settle = self.kinds[name].settle
            if settle is not None:
                settle(tx, self, by_kind[name])


def _hold_lanes(tx: Transaction, verdicts: Sequence[Verdict]) -> None:
    """Hold each lane once, for the longest wait asked for; in one order everywhere, so that no two deadlock."""
    waits: dict[str, float] = {}
    slowed: set[str] = set()
    for verdict in verdicts:
        seconds, lane = verdict.holds_lane, verdict.job.lane
        if seconds is not None:
            waits[lane] = max(seconds, waits.get(lane, 0.0))
            slowed |= {lane} if verdict.slows_lane else set()
    for lane in sorted(waits):
        hold_lane(tx, lane, waits[lane], slow=lane in slowed)
