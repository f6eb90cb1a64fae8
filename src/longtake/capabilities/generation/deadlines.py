"""The job ``generation.sweep``: end tasks past their deadline, by the database's clock.

A running task is polled one last time before it ends. If that does not happen soon, because its lane is paused or its
provider is down, it ends anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog
from sqlalchemy import Row, select

from longtake.capabilities.generation.jobs import JobContext
from longtake.capabilities.generation.lost_submits import enqueue_searches
from longtake.capabilities.generation.tables import IS_UNFINISHED, POLL, SUBMIT, SWEEP, TASK_KINDS, tasks
from longtake.capabilities.generation.tasks import Unsuccessful, end_tasks
from longtake.db import Transaction
from longtake.db.dialects import NOW, seconds_until
from longtake.engine.control import cancel_of_subjects, hurry
from longtake.engine.jobs import Job, Priority
from longtake.engine.kinds import JobKind
from longtake.engine.outcomes import Done, Outcome
from longtake.engine.tables import jobs
from longtake.http.idempotency import forget_old_keys

log = structlog.get_logger(__name__)

PAGE = 200
#: How long after the deadline a last poll may still save the task.
LAST_LOOK_SECONDS = 120.0
OVERDUE = (IS_UNFINISHED, tasks.c.deadline_at < NOW)
COLUMNS = (
    *(tasks.c[name] for name in ("id", "status", "type", "needs_review")),
    seconds_until(tasks.c.deadline_at).label("late"),
    # Polled at or after the deadline, and still not done.
    (tasks.c.last_polled_at >= tasks.c.deadline_at).label("asked"),
)


class DeadlineSweep:
    """Ends overdue tasks in pages, then enqueues searches for lost submits."""

    def __init__(self, context: JobContext) -> None:
        self._context = context

    def kind(self) -> JobKind:
        return JobKind(SWEEP, self.run, priority=Priority.HIGH, time_limit=60.0, max_attempts=3)

    async def run(self, job: Job) -> Outcome:
        database = self._context.database
        while ended := await database.run(end_overdue):
            log.info("tasks past their deadline ended", action="sweep", tasks=ended)
            if ended < PAGE:
                break
        await database.run(enqueue_searches, job.engine, self._context.providers)
        await database.run(forget_old_keys)
        return Done()


def end_overdue(tx: Transaction) -> int:
    """End a page of overdue tasks, or hurry their last poll; return how many ended."""
    late = select(tasks.c.id).where(*OVERDUE).order_by(tasks.c.deadline_at).limit(PAGE)
    found = list(tx.execute(late).scalars())
    if not found:
        return 0
    free, submitting = _lock_jobs(tx, found)
    # Read again now that their jobs are locked: a submit may just have been accepted, with a new deadline.
    again = select(*COLUMNS).where(*OVERDUE, tasks.c.id.in_(free)).order_by(tasks.c.id).with_for_update()
    rows = tx.execute(again).all()
    given_up = [row for row in rows if _is_over(row, submitting)]
    # A search for a lost submit may have begun since; it finds that its task has ended.
    cancel_of_subjects(tx, [row.id for row in given_up], TASK_KINDS, "past its deadline", wait=False)
    ended = end_tasks(tx, unsuccessful=[_ending(row) for row in given_up])
    # Tasks that have just ended have no poll any more.
    hurry(tx, POLL, [row.id for row in rows if row.status == "running"])
    return len(ended)


def _lock_jobs(tx: Transaction, task_ids: Sequence[str]) -> tuple[list[str], set[str]]:
    """Lock the tasks' jobs, so that none starts or ends; return the tasks locked so, and those being submitted.

    Jobs are locked before tasks, as everywhere, so that nothing deadlocks. A task whose job another transaction holds
    at this moment is left for the next sweep.
    """
    about = (jobs.c.subject.in_(task_ids), jobs.c.kind.in_(TASK_KINDS))
    ours = set(tx.execute(select(jobs.c.id).where(*about).with_for_update(skip_locked=True)).scalars())
    live = tx.execute(select(jobs.c.id, jobs.c.subject, jobs.c.kind, jobs.c.state).where(*about)).all()
    taken = {job.subject for job in live if job.id not in ours}
    submitting = {job.subject for job in live if job.kind == SUBMIT and job.state == "running"}
    return [one for one in task_ids if one not in taken], submitting


def _is_over(row: Row[Any], submitting: set[str]) -> bool:
    if -row.late > LAST_LOOK_SECONDS or row.needs_review:
        return True
    if row.status == "running":
        return bool(row.asked)
    # A submit that runs right now may finish: its answer is worth the wait.
    return row.id not in submitting


def _ending(row: Row[Any]) -> Unsuccessful:
    if row.needs_review:
        text = "The provider's answer was lost, and the task was not found again before its deadline."
        return Unsuccessful(row.id, "failed", "SUBMIT_UNKNOWN", text)
    if row.status == "running":
        return Unsuccessful(row.id, "failed", "TIMEOUT", f"The provider did not finish the {row.type} in time.")
    return Unsuccessful(row.id, "failed", "TIMEOUT", "The task waited too long for its turn at the provider.")
