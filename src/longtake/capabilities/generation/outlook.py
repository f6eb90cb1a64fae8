"""What a page can say of a task that is still to end: how far it is, how many are before it, when it is tried again.

Jobs are the program's and not the users': they are read in a short transaction of their own, and only for tasks that
were read as their user's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, select

from longtake.adapters.providers.trouble import trouble_words
from longtake.capabilities.generation.estimates import NONE_YET, Estimate, Estimates
from longtake.capabilities.generation.progress import progress
from longtake.capabilities.generation.queue_position import Lines, read_lines
from longtake.capabilities.generation.schemas import Outlook, moment
from longtake.capabilities.generation.tables import POLL, SUBMIT, Task
from longtake.clock import Clock
from longtake.db import Database, Transaction
from longtake.db.dialects import NOW
from longtake.engine.tables import jobs

_COLUMNS = [
    jobs.c[name] for name in ("key", "kind", "lane", "state", "due_at", "attempt", "max_attempts", "memo", "error")
]


@dataclass(frozen=True, slots=True)
class _Look:
    """What one look at the jobs found, and when."""

    at: datetime
    jobs: Mapping[str, Row[Any]]
    waiting: Mapping[str, Sequence[str]]


class Outlooks:
    """Makes outlooks of tasks, with one short read for as many as are shown together."""

    def __init__(self, database: Database, clock: Clock, estimates: Estimates) -> None:
        self._database = database
        self._estimates = estimates
        self._lines = Lines(clock)

    async def of(self, found: Sequence[Task]) -> dict[str, Outlook]:
        """Return the outlooks of those tasks that have not ended."""
        unfinished = [task for task in found if task.unfinished]
        if not unfinished:
            return {}
        usual = await self._estimates.all()
        look = await self._database.read(_look, [task.id for task in unfinished], self._lines.fresh())
        self._lines.keep(look.waiting)
        return {
            task.id: self._outlook(task, usual.get(task.model, NONE_YET), look.jobs.get(task.id), look.at)
            for task in unfinished
        }

    async def of_new(self, model: str, lane: str) -> Outlook:
        """Return the outlook of a task that is about to be written: it goes to the end of its lane's queue."""
        usual = (await self._estimates.all()).get(model, NONE_YET)
        if self._lines.due(lane):
            self._lines.keep(await self._database.read(read_lines, [lane]))
        return Outlook(_estimate(0.0, usual, None), queue=self._lines.place(lane, ""), usual=_usual(usual))

    def written(self, task_id: str, lane: str) -> None:
        """Note that a new task is in its lane's queue now."""
        self._lines.join(lane, task_id)

    def _outlook(self, task: Task, usual: Estimate, job: Row[Any] | None, now: datetime) -> Outlook:
        retry = queue = None
        if job is not None and job.state == "ready":
            retry = _retry(job)
            if job.kind == SUBMIT and retry is None:
                queue = self._lines.place(job.lane, task.id)
        # Time in a queue is no progress: a bar that moved then would jump back when the task begins.
        begun = now if queue is not None else task.started_at or task.created_at
        elapsed = (now - begun).total_seconds()
        return Outlook(_estimate(elapsed, usual, task.progress), queue, retry, _usual(usual))


def _look(tx: Transaction, task_ids: Sequence[str], known: frozenset[str]) -> _Look:
    """Read the tasks' jobs, and the queues of those lanes that are not known already."""
    about = (jobs.c.kind.in_((SUBMIT, POLL)), jobs.c.key.in_(task_ids))
    found = {str(row.key): row for row in tx.execute(select(*_COLUMNS).where(*about))}
    lanes = {row.lane for row in found.values() if row.kind == SUBMIT and row.state == "ready"}
    return _Look(tx.execute(select(NOW)).scalar_one(), found, read_lines(tx, lanes - known))


def _estimate(elapsed: float, usual: Estimate, provider: float | None) -> dict[str, Any]:
    known = asdict(progress(elapsed, usual.median_seconds, usual.p95_seconds, provider))
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in known.items()}


def _usual(usual: Estimate) -> dict[str, Any] | None:
    return asdict(usual) if usual.runs else None


def _retry(job: Row[Any]) -> dict[str, Any] | None:
    """Return when a job that went wrong is tried again; None for one that only waits its turn."""
    if not job.error:
        return None
    code = str(job.error.get("code", ""))
    # Trouble with a provider is waited out until the task's deadline; only our own mistakes have a last attempt.
    failures, most = ((job.memo or {}).get("trouble", 1), None) if not job.attempt else (job.attempt, job.max_attempts)
    at = moment(job.due_at)
    return {"attempt": failures + 1, "of": most, "at": at, "code": code, "message": trouble_words(code)}
