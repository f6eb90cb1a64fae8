"""What callers learn about a task before it ends: how far it is, its place in the queue, when it is tried again.

Jobs belong to no user: they are read in a short transaction of their own, and only for tasks that were read as their
user's. One read of a queue serves every request within a second, so many open pages cost one read. How long a model
usually takes is computed from its newest completed tasks.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, literal_column, select

from longtake.capabilities.generation.progress import progress
from longtake.capabilities.generation.tables import POLL, SUBMIT, Task, tasks
from longtake.clock import Clock, iso_timestamp
from longtake.db import Database, Transaction
from longtake.db.dialects import NOW
from longtake.engine.tables import jobs
from longtake.services.provider_calls import trouble_words

#: A place further back than this is shown as "at least".
QUEUE_LIMIT = 1_000
QUEUE_SECONDS = 1.0
#: The completed tasks of a model that an estimate is made of.
SAMPLE = 200
ESTIMATE_SECONDS = 30.0

_COLUMNS = [
    jobs.c[name] for name in ("key", "kind", "lane", "state", "due_at", "attempt", "max_attempts", "memo", "error")
]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What callers learn about a task before it ends; all None once it has ended."""

    estimate: dict[str, Any] | None = None
    usual: dict[str, Any] | None = None
    queue: dict[str, Any] | None = None
    retry: dict[str, Any] | None = None


NO_OUTLOOK = Outlook()


class Outlooks:
    """Builds the outlooks of tasks, with one short read for all that are shown together."""

    def __init__(self, database: Database, clock: Clock, models: list[str]) -> None:
        self._database = database
        self.estimates = Estimates(database, clock, models)
        self.queues = LaneQueues(clock)

    async def of(self, found: Sequence[Task]) -> dict[str, Outlook]:
        unfinished = [task for task in found if task.unfinished]
        if not unfinished:
            return {}
        usual = await self.estimates.all()
        ids = [task.id for task in unfinished]
        now, rows, queues = await self._database.read(_read_jobs, ids, self.queues.fresh())
        self.queues.keep(queues)
        return {
            task.id: self._outlook(task, usual.get(task.model, NONE_YET), rows.get(task.id), now) for task in unfinished
        }

    async def of_new(self, model: str, lane: str) -> Outlook:
        """Return the outlook of a task that is about to be written: it goes to the end of its lane's queue."""
        usual = (await self.estimates.all()).get(model, NONE_YET)
        if self.queues.due(lane):
            self.queues.keep(await self._database.read(read_queues, [lane]))
        return Outlook(_estimate(0.0, usual, None), _usual(usual), self.queues.place(lane, ""))

    def _outlook(self, task: Task, usual: Estimate, job: Row[Any] | None, now: datetime) -> Outlook:
        retry = queue = None
        if job is not None and job.state == "ready":
            retry = _retry(task, job)
            if job.kind == SUBMIT and retry is None:
                queue = self.queues.place(job.lane, task.id)
        # Time in a queue is no progress: a bar that moved then would jump back when the task starts.
        begun = now if queue is not None else task.started_at or task.created_at
        elapsed = (now - begun).total_seconds()
        return Outlook(_estimate(elapsed, usual, task.progress), _usual(usual), queue, retry)


def _read_jobs(
    tx: Transaction, task_ids: Sequence[str], known: frozenset[str]
) -> tuple[datetime, dict[str, Row[Any]], dict[str, list[str]]]:
    """Return the time, the jobs of the tasks, and the queues of their lanes except those that are known."""
    about = (jobs.c.kind.in_((SUBMIT, POLL)), jobs.c.key.in_(task_ids))
    found = {str(row.key): row for row in tx.execute(select(*_COLUMNS).where(*about))}
    lanes = {row.lane for row in found.values() if row.kind == SUBMIT and row.state == "ready"}
    return tx.execute(select(NOW)).scalar_one(), found, read_queues(tx, lanes - known)


def _estimate(elapsed: float, usual: Estimate, provider: float | None) -> dict[str, Any]:
    known = asdict(progress(elapsed, usual.median_seconds, usual.p95_seconds, provider))
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in known.items()}


def _usual(usual: Estimate) -> dict[str, Any] | None:
    return asdict(usual) if usual.runs else None


def _retry(task: Task, job: Row[Any]) -> dict[str, Any] | None:
    """Return when a job that failed is tried again; None for one that only waits its turn."""
    if not job.error:
        return None
    code = str(job.error.get("code", ""))
    # Trouble with a provider is waited out until the task's deadline; only our own failures have a last attempt.
    waits = code == (task.trouble or {}).get("code")
    failures, most = ((job.memo or {}).get("trouble", 1), None) if waits else (job.attempt, job.max_attempts)
    at = iso_timestamp(job.due_at)
    return {"attempt": failures + 1, "of": most, "at": at, "code": code, "message": trouble_words(code)}


# -- queues ------------------------------------------------------------------------------------------------------


class LaneQueues:
    """The tasks that wait in each lane, as this process read them last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._read_at: dict[str, float] = {}
        #: By lane, how many are ahead of each task.
        self._ahead: dict[str, dict[str, int]] = {}

    def fresh(self) -> frozenset[str]:
        """Return the lanes whose queues need not be read again yet."""
        now = self._clock.monotonic()
        return frozenset(lane for lane, read_at in self._read_at.items() if now - read_at < QUEUE_SECONDS)

    def due(self, lane: str) -> bool:
        """Return whether the caller should read the queue. Others use the old one until the caller has."""
        if lane in self.fresh():
            return False
        if lane in self._read_at:
            self._read_at[lane] = self._clock.monotonic()
        return True

    def keep(self, queues: Mapping[str, Sequence[str]]) -> None:
        for lane, task_ids in queues.items():
            self._read_at[lane] = self._clock.monotonic()
            self._ahead[lane] = {task_id: ahead for ahead, task_id in enumerate(task_ids)}

    def join(self, lane: str, task_id: str) -> None:
        """Put a task that was just written at the end, so that the next one within the second stands behind it."""
        queue = self._ahead.get(lane)
        if queue is not None and len(queue) < QUEUE_LIMIT:
            queue.setdefault(task_id, len(queue))

    def place(self, lane: str, task_id: str) -> dict[str, Any] | None:
        """Return the task's place in the lane; None when the queue was never read."""
        queue = self._ahead.get(lane)
        if queue is None:
            return None
        # A task that was not read came after those that were.
        ahead = queue.get(task_id, len(queue))
        return {"position": ahead + 1, "ahead": ahead, "more": ahead >= QUEUE_LIMIT}


def read_queues(tx: Transaction, lanes: Iterable[str]) -> dict[str, list[str]]:
    """Return the tasks whose submit waits in each lane, in the order in which workers claim them, up to the limit."""
    # Spelled as in the index of claims, which is then read in its own order and no further than needed.
    ready = jobs.c.state == literal_column("'ready'")
    waiting = select(jobs.c.key).where(ready, jobs.c.kind == SUBMIT).order_by(jobs.c.priority, jobs.c.due_at)
    return {
        lane: [str(key) for key in tx.execute(waiting.where(jobs.c.lane == lane).limit(QUEUE_LIMIT)).scalars()]
        for lane in sorted(lanes)
    }


# -- estimates ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds from acceptance to completion over ``runs`` tasks; None while there are none."""

    median_seconds: float | None
    p95_seconds: float | None
    runs: int


NONE_YET = Estimate(None, None, 0)


class Estimates:
    """Reads the durations of all models at once, at most every half minute."""

    def __init__(self, database: Database, clock: Clock, models: list[str]) -> None:
        self._database = database
        self._clock = clock
        self._models = models
        self._known = dict.fromkeys(models, NONE_YET)
        self._read_at = -math.inf
        self._reading: asyncio.Task[None] | None = None

    async def all(self) -> dict[str, Estimate]:
        if self._clock.monotonic() - self._read_at > ESTIMATE_SECONDS:
            begins = self._reading is None
            reading = self._reading = self._reading or asyncio.create_task(self._read())
            # Callers that come meanwhile get the old estimates, if there are any, and do not read themselves.
            if begins or self._read_at == -math.inf:
                await asyncio.shield(reading)
        return self._known

    async def _read(self) -> None:
        try:
            self._known = await self._database.read(_read_durations, self._models)
            self._read_at = self._clock.monotonic()
        finally:
            self._reading = None


def _read_durations(tx: Transaction, models: list[str]) -> dict[str, Estimate]:
    known = {}
    for model in models:
        newest = (
            select(tasks.c.started_at, tasks.c.created_at, tasks.c.ended_at)
            .where(tasks.c.model == model, tasks.c.status == "completed")
            .order_by(tasks.c.ended_at.desc())
            .limit(SAMPLE)
        )
        rows = tx.execute(newest).all()
        # A provider that answers with the file itself never accepts a task first.
        known[model] = estimate([(row.ended_at - (row.started_at or row.created_at)).total_seconds() for row in rows])
    return known


def estimate(seconds: list[float]) -> Estimate:
    """Return median and 95th percentile, by the nearest rank."""
    if not seconds:
        return NONE_YET
    ordered = sorted(seconds)

    def at(part: float) -> float:
        return round(ordered[min(math.ceil(part * len(ordered)), len(ordered)) - 1], 2)

    return Estimate(at(0.5), at(0.95), len(ordered))
