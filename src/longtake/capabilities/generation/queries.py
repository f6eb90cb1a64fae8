"""Reads one user's tasks: one task, the unfinished ones, and pages by filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, select, union_all

from longtake.capabilities.generation.tables import IS_UNFINISHED, STATUSES, Task, task_from, tasks
from longtake.db import Transaction
from longtake.errors import NotFound

#: Unfinished tasks that are shown at once.
PENDING_LIMIT = 500


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Which of a user's tasks to list; None means any."""

    status: Sequence[str] = ()
    type: str | None = None
    model: str | None = None
    conversation_id: str | None = None


def get_task(tx: Transaction, user_id: str, task_id: str) -> Task:
    """Return the user's task; NotFound for the task of another user."""
    row = tx.execute(select(tasks).where(tasks.c.id == task_id, tasks.c.user_id == user_id)).first()
    if row is None:
        raise no_task(task_id)
    return task_from(row)


def no_task(task_id: str) -> NotFound:
    """Return the same error for a task that never existed, one that was deleted and one of another user."""
    return NotFound(f"There is no task {task_id}.", hint="GET /v1/tasks lists your tasks.")


def unfinished_tasks(tx: Transaction, user_id: str) -> list[Task]:
    """Return all unfinished tasks of the user, oldest first; one beyond the limit tells that there are more."""
    mine = (tasks.c.user_id == user_id, IS_UNFINISHED)
    rows = tx.execute(select(tasks).where(*mine).order_by(tasks.c.id).limit(PENDING_LIMIT + 1))
    return [task_from(row) for row in rows]


def list_tasks(tx: Transaction, user_id: str, wanted: TaskFilter, before: str | None, limit: int) -> list[Task]:
    """Return a page of the user's tasks, newest first; ids begin with the time, so they are the order."""
    matching = _matching(user_id, wanted, before)
    newest = tasks.c.id.desc()
    # Without a filter PostgreSQL would walk back through all users' tasks to those of a user who was away for long.
    statuses = STATUSES if wanted == TaskFilter() else wanted.status
    if len(statuses) <= 1:
        status = [tasks.c.status == one for one in statuses]
        page = select(tasks).where(*matching, *status)
    else:
        # The newest of each status by its index, then the newest of these: one status may be much rarer than another.
        each = [
            select(tasks.c.id).where(*matching, tasks.c.status == one).order_by(newest).limit(limit).subquery()
            for one in sorted(set(statuses))
        ]
        page = select(tasks).where(tasks.c.id.in_(union_all(*[select(one.c.id) for one in each])))
    return [task_from(row) for row in tx.execute(page.order_by(newest).limit(limit))]


def _matching(user_id: str, wanted: TaskFilter, before: str | None) -> list[ColumnElement[bool]]:
    """Return the conditions, without the status."""
    if wanted.conversation_id is None:
        conditions = [tasks.c.user_id == user_id]
    else:
        # A conversation has few tasks and a user may have many: spelled so that only the conversation's index fits.
        conditions = [tasks.c.conversation_id == wanted.conversation_id, tasks.c.user_id.concat("") == user_id]
    if wanted.type is not None:
        conditions.append(tasks.c.type == wanted.type)
    if wanted.model is not None:
        conditions.append(tasks.c.model == wanted.model)
    if before is not None:
        conditions.append(tasks.c.id < before)
    return conditions
