"""Reading tasks: one, the unfinished, and lists by filter. Always one user's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select

from longtake.db import Transaction
from longtake.errors import NotFound
from longtake.generation.tables import IS_UNFINISHED, tasks
from longtake.generation.views import Task, task_from

PENDING_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Filter:
    """Which of a user's tasks; None means any."""

    status: Sequence[str] = ()
    type: str | None = None
    model: str | None = None
    conversation_id: str | None = None


def get_task(tx: Transaction, user_id: str, task_id: str) -> Task:
    """Return the user's task; another's does not exist for them."""
    row = tx.execute(select(tasks).where(tasks.c.id == task_id, tasks.c.user_id == user_id)).first()
    if row is None:
        raise NotFound(f"There is no task {task_id}.", hint="GET /v1/tasks lists yours.")
    return task_from(row)


def unfinished_tasks(tx: Transaction, user_id: str) -> list[Task]:
    """Return all unfinished tasks of the user, oldest first."""
    mine = (tasks.c.user_id == user_id, IS_UNFINISHED)
    rows = tx.execute(select(tasks).where(*mine).order_by(tasks.c.id).limit(PENDING_LIMIT))
    return [task_from(row) for row in rows]


def list_tasks(tx: Transaction, user_id: str, wanted: Filter, before: str | None, limit: int) -> list[Task]:
    """Return a page of the user's tasks, newest first; ids begin with the time, so they are the order."""
    query = select(tasks).where(tasks.c.user_id == user_id)
    if wanted.status:
        query = query.where(tasks.c.status.in_(wanted.status))
    for column, value in (
        (tasks.c.type, wanted.type),
        (tasks.c.model, wanted.model),
        (tasks.c.conversation_id, wanted.conversation_id),
    ):
        if value is not None:
            query = query.where(column == value)
    if before is not None:
        query = query.where(tasks.c.id < before)
    return [task_from(row) for row in tx.execute(query.order_by(tasks.c.id.desc()).limit(limit))]
