"""The ends of tasks: status, credits, message, assets and event together, once, in the caller's transaction.

Every change is conditional on the task being unfinished: of two that come at the same time the first wins, and the
second changes nothing at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, update

from longtake.capabilities.generation.new_task import about
from longtake.capabilities.generation.tables import UNFINISHED, tasks
from longtake.capabilities.generation.views import Task, task_from
from longtake.db import Transaction
from longtake.db.dialects import NOW
from longtake.engine.events import append_event
from longtake.services.assets import NewAsset, register_assets
from longtake.services.conversations.messages import FinishedMessage, finish_messages
from longtake.services.credits import end_holds

#: Told to whoever waits for a task.
TOPIC = "tasks"
ERROR_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Unsuccessful:
    """A task that ended without a result."""

    task_id: str
    status: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Successful:
    """A task whose provider delivered."""

    task_id: str
    results: Sequence[NewAsset]


def end_tasks(
    tx: Transaction,
    *,
    successful: Sequence[Successful] = (),
    unsuccessful: Sequence[Unsuccessful] = (),
) -> list[Task]:
    """Complete, fail or cancel tasks with all that belongs to it; return those that were still unfinished.

    All at once and in one order (tasks, holds, balances, conversations), so that two batches never wait for each other.
    """
    values = {one.task_id: {"status": "completed", "progress": 1.0} for one in successful}
    values |= {one.task_id: _without_result(one) for one in unsuccessful}
    ended = [task for task_id in sorted(values) for task in _end(tx, task_id, values[task_id])]
    if not ended:
        return []
    end_holds(
        tx,
        capture=[task.id for task in ended if task.status == "completed"],
        release={task.id: task.fail_code or task.status for task in ended if task.status != "completed"},
    )
    _write_messages(tx, ended)
    results = {one.task_id: one.results for one in successful}
    for task in ended:
        register_assets(tx, results.get(task.id, ()), task.request_id)
    _tell(tx, ended)
    return ended


def _without_result(one: Unsuccessful) -> dict[str, Any]:
    error = {"fail_code": one.code, "error": one.message[:ERROR_LIMIT]}
    return {"status": one.status, "credits_refunded": tasks.c.credits_held, **error}


def _end(tx: Transaction, task_id: str, values: dict[str, Any]) -> list[Task]:
    unfinished = (tasks.c.id == task_id, tasks.c.status.in_(UNFINISHED))
    change = update(tasks).where(*unfinished).values(ended_at=NOW, needs_review=False, trouble=None, **values)
    return [task_from(row) for row in tx.execute(change.returning(tasks))]


def _write_messages(tx: Transaction, ended: Sequence[Task]) -> None:
    finished = [
        FinishedMessage(
            task_id=task.id,
            conversation_id=task.conversation_id,
            user_id=task.user_id,
            state=task.status,
            text=task.error or "",
            data=about(task.id, task.model, task.type, task.parameters, task.price),
            message_id=task.placeholder_message_id,
        )
        for task in ended
        if task.conversation_id is not None
    ]
    if not finished:
        return
    written = finish_messages(tx, finished)
    completed = [
        {"task": task.id, "message": written[task.id]}
        for task in ended
        if task.status == "completed" and task.id in written
    ]
    if completed:
        name = update(tasks).where(tasks.c.id == bindparam("task")).values(completed_message_id=bindparam("message"))
        tx.execute(name, completed)


def _tell(tx: Transaction, ended: Sequence[Task]) -> None:
    for task in ended:
        data: dict[str, Any] = {
            "type": task.type,
            "model": task.model,
            "status": task.status,
            "conversation_id": task.conversation_id,
        }
        if task.fail_code is not None:
            data["error"] = {"code": task.fail_code, "message": task.error}
        append_event(tx, f"task.{task.status}", subject=task.id, user_id=task.user_id, data=data)
    tx.signal(TOPIC)
