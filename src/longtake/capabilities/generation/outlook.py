"""What callers learn about a task before it ends: how far it is, its place in the queue, when it is tried again.

Jobs belong to no user: they are read in a short transaction of their own, and only for tasks that were read as their
user's. One read of a queue serves every request within a second, so many open pages cost one read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, literal_column, select

from longtake.capabilities.generation.estimates import NONE_YET, Estimate, Estimates
from longtake.capabilities.generation.progress import progress
from longtake.capabilities.generation.schemas import Outlook
from longtake.capabilities.generation.tables import POLL, SUBMIT, Task
from longtake.clock import Clock, iso_timestamp
from longtake.db import Database, Transaction
from longtake.db.dialects import NOW
from longtake.engine.tables import jobs
from longtake.services.provider_calls import trouble_words

#: A place further back than this is shown as "at least".
QUEUE_LIMIT = 1_000
FRESH_SECONDS = 1.0

_COLUMNS = [
    jobs.c[name] for name in ("key", "kind", "lane", "state", "due_at", "attempt", "max_attempts", "memo", "error")
]


@dataclass(frozen=True, slots=True)
class _JobsRead:
    """The jobs of some tasks and the queues of their lanes, as one transaction read them."""

    at: datetime
    jobs: Mapping[str, Row[Any]]
    queues: Mapping[str, Sequence[str]]


class Outlooks:
    """Builds the outlooks of tasks, with one short read for all that are shown together."""

    def __init__(self, database: Database, clock: Clock, estimates: Estimates) -> None:
        self._database = database
        self._estimates = estimates
        self._queues = LaneQueues(clock)

    async def of(self, found: Sequence[Task]) -> dict[str, Outlook]:
        """Return the outlooks of those tasks that have not ended."""
        unfinished = [task for task in found if task.unfinished]
        if not unfinished:
            return {}
        usual = await self._estimates.all()
        read = await self._database.read(_read_jobs, [task.id for task in unfinished], self._queues.fresh())
        self._queues.keep(read.queues)
        return {
            task.id: self._outlook(task, usual.get(task.model, NONE_YET), read.jobs.get(task.id), read.at)
            for task in unfinished
        }

    async def of_new(self, model: str, lane: str) -> Outlook:
        """Return the outlook of a task that is about to be written: it goes to the end of its lane's queue."""
        usual = (await self._estimates.all()).get(model, NONE_YET)
        if self._queues.due(lane):
            self._queues.keep(await self._database.read(read_queues, [lane]))
        return Outlook(_estimate(0.0, usual, None), queue=self._queues.place(lane, ""), usual=_usual(usual))

    def written(self, task_id: str, lane: str) -> None:
        """Add a task that was just written to its lane's queue."""
        self._queues.join(lane, task_id)

    def _outlook(self, task: Task, usual: Estimate, job: Row[Any] | None, now: datetime) -> Outlook:
        retry = queue = None
        if job is not None and job.state == "ready":
            retry = _retry(task, job)
            if job.kind == SUBMIT and retry is None:
                queue = self._queues.place(job.lane, task.id)
        # Time in a queue is no progress: a bar that moved then would jump back when the task starts.
        begun = now if queue is not None else task.started_at or task.created_at
        elapsed = (now - begun).total_seconds()
        return Outlook(_estimate(elapsed, usual, task.progress), queue, retry, _usual(usual))


def _read_jobs(tx: Transaction, task_ids: Sequence[str], known: frozenset[str]) -> _JobsRead:
    """Read the tasks' jobs, and the queues of their lanes except those that are known."""
    about = (jobs.c.kind.in_((SUBMIT, POLL)), jobs.c.key.in_(task_ids))
    found = {str(row.key): row for row in tx.execute(select(*_COLUMNS).where(*about))}
    lanes = {row.lane for row in found.values() if row.kind == SUBMIT and row.state == "ready"}
    return _JobsRead(tx.execute(select(NOW)).scalar_one(), found, read_queues(tx, lanes - known))


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


@dataclass(frozen=True, slots=True)
class LaneQueue:
    """The tasks that wait in one lane, each with how many are ahead of it."""

    read_at: float
    ahead: dict[str, int]

    def place(self, task_id: str) -> dict[str, Any]:
        """Return the task's place; a task that was not read came after those that were."""
        ahead = self.ahead.get(task_id, len(self.ahead))
        return {"position": ahead + 1, "ahead": ahead, "more": ahead >= QUEUE_LIMIT}


class LaneQueues:
    """The lanes' queues as this process read them last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queues: dict[str, LaneQueue] = {}

    def fresh(self) -> frozenset[str]:
        """Return the lanes whose queues need not be read again yet."""
        now = self._clock.monotonic()
        return frozenset(lane for lane, queue in self._queues.items() if now - queue.read_at < FRESH_SECONDS)

    def due(self, lane: str) -> bool:
        """Return whether the caller should read the queue. Others use the old one until the caller has."""
        if lane in self.fresh():
            return False
        if lane in self._queues:
            self._queues[lane] = replace(self._queues[lane], read_at=self._clock.monotonic())
        return True

    def keep(self, queues: Mapping[str, Sequence[str]]) -> None:
        """Remember queues that were just read."""
        now = self._clock.monotonic()
        for lane, task_ids in queues.items():
            self._queues[lane] = LaneQueue(now, {task_id: ahead for ahead, task_id in enumerate(task_ids)})

    def join(self, lane: str, task_id: str) -> None:
        """Put a new task at the end, so that the next one within the second stands behind it."""
        queue = self._queues.get(lane)
        if queue is not None and len(queue.ahead) < QUEUE_LIMIT:
            queue.ahead.setdefault(task_id, len(queue.ahead))

    def place(self, lane: str, task_id: str) -> dict[str, Any] | None:
        """Return the task's place in the lane; None when the queue was never read."""
        queue = self._queues.get(lane)
        return None if queue is None else queue.place(task_id)


def read_queues(tx: Transaction, lanes: Iterable[str]) -> dict[str, list[str]]:
    """Return the tasks whose submit waits in each lane, in the order in which workers claim them, up to the limit."""
    # Spelled as in the index of claims, which is then read in its own order and no further than needed.
    ready = jobs.c.state == literal_column("'ready'")
    waiting = select(jobs.c.key).where(ready, jobs.c.kind == SUBMIT).order_by(jobs.c.priority, jobs.c.due_at)
    return {
        lane: [str(key) for key in tx.execute(waiting.where(jobs.c.lane == lane).limit(QUEUE_LIMIT)).scalars()]
        for lane in sorted(lanes)
    }
