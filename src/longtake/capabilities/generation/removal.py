"""Deletes tasks and conversations: for their user, with an account, and old tasks by the job ``generation.prune``.

Rows, messages and results go in one transaction, files afterwards by a job. The credit ledger and the record of
submissions are append-only and stay.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, select

from longtake.capabilities.generation.tables import (
    IS_UNFINISHED,
    PRUNE,
    TASK_KINDS,
    UNFINISHED,
    get_task,
    no_task,
    tasks,
)
from longtake.capabilities.generation.tasks import Unsuccessful, end_tasks
from longtake.db import Database, Transaction
from longtake.engine.control import cancel_of_subjects
from longtake.engine.engine import Engine
from longtake.engine.events import append_events
from longtake.engine.jobs import Job, Priority
from longtake.engine.kinds import JobKind
from longtake.engine.outcomes import Done, Outcome
from longtake.engine.schedules import database_now
from longtake.errors import StateConflict
from longtake.services.assets.store import remove_assets_of_tasks
from longtake.services.conversations.messages import remove_messages_of_tasks
from longtake.services.conversations.store import get_conversation, remove_conversation

PAGE = 200
#: As many as fit into one statement. A second part would wait for jobs while rows of the first are locked.
MOST = 10_000
FIRST_ID = str(uuid.UUID(int=0))


def delete_task(tx: Transaction, engine: Engine, user_id: str, task_id: str) -> None:
    """Delete a task that has ended, with its messages and results."""
    task = get_task(tx, user_id, task_id)
    if task.unfinished:
        message = f"The task {task_id} is {task.status}; only a task that has ended can be deleted."
        raise StateConflict(message, hint="Cancel it first.", task_status=task.status)
    if not remove_tasks(tx, engine, [task_id]):
        # Another request has just deleted it.
        raise no_task(task_id)


def delete_conversation(tx: Transaction, engine: Engine, user_id: str, conversation_id: str) -> None:
    """Delete a conversation with its messages and its tasks, which must all have ended."""
    get_conversation(tx, user_id, conversation_id)
    _require_ended(tx, conversation_id)
    ended = select(tasks.c.id).where(tasks.c.conversation_id == conversation_id, tasks.c.user_id == user_id)
    remove_tasks(tx, engine, list(tx.execute(ended).scalars()))
    remove_conversation(tx, user_id, conversation_id)
    # A request that made a task meanwhile held the conversation's lock until now; later ones find it gone.
    _require_ended(tx, conversation_id)


def remove_tasks(tx: Transaction, engine: Engine, task_ids: Sequence[str]) -> int:
    """Remove those of the tasks that have ended; return how many.

    Rows are locked in the usual order (jobs and assets, tasks, conversations), so that nothing deadlocks.
    """
    ordered = sorted(task_ids)
    return sum(_remove_page(tx, engine, ordered[first : first + MOST]) for first in range(0, len(ordered), MOST))


def _remove_page(tx: Transaction, engine: Engine, task_ids: Sequence[str]) -> int:
    ended = (tasks.c.id.in_(task_ids), tasks.c.status.not_in(UNFINISHED))
    found = list(tx.execute(select(tasks.c.id).where(*ended)).scalars())
    remove_assets_of_tasks(tx, engine, found)
    columns = (tasks.c.id, tasks.c.user_id, tasks.c.conversation_id)
    rows = tx.execute(delete(tasks).where(tasks.c.id.in_(found)).returning(*columns)).all()
    remove_messages_of_tasks(tx, {row.id: row.conversation_id for row in rows if row.conversation_id is not None})
    append_events(tx, [("task.deleted", row.id, row.user_id, {"conversation_id": row.conversation_id}) for row in rows])
    return len(rows)


def _require_ended(tx: Transaction, conversation_id: str) -> None:
    under_way = select(tasks.c.id).where(tasks.c.conversation_id == conversation_id, tasks.c.status.in_(UNFINISHED))
    task_id = tx.execute(under_way.limit(1)).scalar()
    if task_id is not None:
        message = f"The task {task_id} of this conversation has not ended."
        raise StateConflict(message, hint="Cancel the task first, or wait until it has ended.", task_id=task_id)


# -- old tasks ---------------------------------------------------------------------------------------------------


class Retention:
    """Removes tasks that ended more than so many days ago; 0 days keep all."""

    def __init__(self, database: Database, days: float) -> None:
        self._database = database
        self._days = days

    def kind(self) -> JobKind:
        return JobKind(PRUNE, self.run, priority=Priority.LOW, time_limit=600.0)

    async def run(self, job: Job) -> Outcome:
        """Remove old tasks in pages, each in its own transaction: a kill loses nothing."""
        after: str | None = FIRST_ID if self._days else None
        while after is not None:
            after = await self._database.run(remove_old_tasks, job.engine, self._days, after)
        return Done()


def remove_old_tasks(tx: Transaction, engine: Engine, days: float, after: str) -> str | None:
    """Remove a page of old tasks; return the last id that was read, or None when there are no more.

    Ids begin with the time of creation, so every task that is old enough has an id before the cutoff's.
    """
    cutoff = database_now(tx) - timedelta(days=days)
    end = str(uuid.UUID(int=int(cutoff.timestamp() * 1000) << 80))
    columns = (tasks.c.id, tasks.c.status, tasks.c.ended_at)
    page = select(*columns).where(tasks.c.id > after, tasks.c.id < end).order_by(tasks.c.id).limit(PAGE)
    rows = tx.execute(page).all()
    remove_tasks(tx, engine, [row.id for row in rows if row.status not in UNFINISHED and row.ended_at < cutoff])
    return rows[-1].id if len(rows) == PAGE else None


def end_tasks_of(tx: Transaction, _engine: Engine, user_id: str, before: datetime) -> bool:
    """Cancel unfinished tasks, as the user could: their credits are released before the tasks are removed."""
    found = _page(tx, user_id, before, IS_UNFINISHED)
    cancel_of_subjects(tx, found, TASK_KINDS, "its user has deleted the account")
    cancelled = [Unsuccessful(one, "cancelled", "CANCELLED", "Its user has deleted the account.") for one in found]
    end_tasks(tx, unsuccessful=cancelled)
    return len(found) == PAGE


def remove_tasks_of(tx: Transaction, engine: Engine, user_id: str, before: datetime) -> bool:
    """Remove tasks that have ended, with their messages and results."""
    found = _page(tx, user_id, before, ~IS_UNFINISHED)
    remove_tasks(tx, engine, found)
    return len(found) == PAGE


def _page(tx: Transaction, user_id: str, before: datetime, which: ColumnElement[bool]) -> list[str]:
    mine = (tasks.c.user_id == user_id, tasks.c.created_at <= before, which)
    return list(tx.execute(select(tasks.c.id).where(*mine).order_by(tasks.c.id).limit(PAGE)).scalars())
