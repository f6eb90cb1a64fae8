"""Deleting tasks and conversations: rows, messages and results in one transaction, files after it, by a job.

The ledger stays: what was paid was paid. What was submitted stays on record as well (append-only).
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select

from longtake.capabilities.generation.queries import get_task, no_task
from longtake.capabilities.generation.tables import IS_UNFINISHED, UNFINISHED, tasks
from longtake.db import Transaction
from longtake.engine.engine import Engine
from longtake.engine.events import append_events
from longtake.errors import StateConflict
from longtake.services.assets.store import remove_assets_of_tasks
from longtake.services.conversations.messages import remove_messages_of_tasks
from longtake.services.conversations.store import get_conversation, remove_conversation

PAGE = 200


def delete_task(tx: Transaction, engine: Engine, user_id: str, task_id: str) -> None:
    """Delete a task that has ended, with its messages and results."""
    task = get_task(tx, user_id, task_id)
    if task.unfinished:
        message = f"The task {task_id} is {task.status}: only one that has ended can be deleted."
        raise StateConflict(message, hint="Cancel it first.", task_status=task.status)
    if not remove_tasks(tx, engine, [task_id]):
        # Somebody else has just deleted it.
        raise no_task(task_id)


def delete_conversation(tx: Transaction, engine: Engine, user_id: str, conversation_id: str) -> None:
    """Delete a conversation with its messages and its tasks, which must all have ended."""
    get_conversation(tx, user_id, conversation_id)
    _require_ended(tx, conversation_id)
    ended = select(tasks.c.id).where(tasks.c.conversation_id == conversation_id, tasks.c.user_id == user_id)
    remove_tasks(tx, engine, list(tx.execute(ended).scalars()))
    remove_conversation(tx, user_id, conversation_id)
    # Whoever made a task meanwhile had the conversation locked until now; from here on it is gone for them.
    _require_ended(tx, conversation_id)


def remove_tasks(tx: Transaction, engine: Engine, task_ids: Sequence[str]) -> int:
    """Remove those of the tasks that have ended; return how many there were.

    Jobs and assets first, then tasks, then conversations, as everywhere: nobody deadlocks.
    """
    wanted, removed = sorted(task_ids), 0
    for first in range(0, len(wanted), PAGE):
        removed += _remove_page(tx, engine, wanted[first : first + PAGE])
    return removed


def require_unused(tx: Transaction, user_id: str, asset_id: str) -> None:
    """Refuse while a task under way may still have to hand this reference to its provider."""
    columns = (tasks.c.id, tasks.c["references"])
    for row in tx.execute(select(*columns).where(tasks.c.user_id == user_id, IS_UNFINISHED)):
        if asset_id in row.references:
            message = f"The task {row.id} is under way and uses the reference {asset_id}."
            raise StateConflict(message, hint="Wait until it has ended, or cancel it.")


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
        message = f"The task {task_id} of this conversation is under way."
        raise StateConflict(message, hint="Cancel it first, or wait until it has ended.", task_id=task_id)
