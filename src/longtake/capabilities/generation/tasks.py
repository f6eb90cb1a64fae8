"""The life of a task: created, started, ended or cancelled, and refunded when its results are lost.

Each function runs in the caller's transaction and writes status, credits, message, assets and event together. Every
change of status is conditional on the task being unfinished: of two ends the first wins, the second changes nothing.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Double, bindparam, func, insert, null, select, update

from longtake.adapters.providers.provider import Provider
from longtake.capabilities.generation.errors import InvalidReferences
from longtake.capabilities.generation.submissions import CheckedRequest, reported_ids
from longtake.capabilities.generation.tables import (
    POLL,
    SUBMIT,
    TASK_KINDS,
    UNFINISHED,
    Task,
    get_task,
    task_from,
    tasks,
)
from longtake.clock import iso_timestamp, new_id
from longtake.db import Transaction
from longtake.db.dialects import NOW, Identifier, later
from longtake.db.prepared import Prepared
from longtake.engine.control import cancel_of_subjects
from longtake.engine.engine import Engine
from longtake.engine.events import append_event
from longtake.errors import StateConflict
from longtake.services.assets import NewAsset, assets, register_assets
from longtake.services.conversations.messages import FinishedMessage, finish_messages, open_placeholder
from longtake.services.credits import end_holds, hold

#: The signal that tasks have ended.
ENDED_SIGNAL = "tasks"
PROMPT_IN_EVENT = 200
ERROR_LIMIT = 500
#: Seconds between polls while a task had fewer polls than this; then LAST. Watched tasks are polled sooner.
STEPS = ((10, 30.0), (30, 60.0))
LAST = 120.0
#: Each wait is spread by a tenth, so that tasks submitted together do not stay together; the lane does the rest.
SPREAD = 0.1

_NEW_COLUMNS = (
    "id", "user_id", "conversation_id", "type", "model", "provider", "prompt", "parameters", "references", "price",
    "credits_held", "placeholder_message_id", "retry_of", "request_id", "reference",
)  # fmt: skip
WRITE = Prepared(
    insert(tasks)
    .values(
        **{name: bindparam(name, type_=tasks.c[name].type) for name in _NEW_COLUMNS},
        created_at=NOW,
        # The queue has a limit of its own; the model's deadline counts from the provider's acceptance.
        deadline_at=later(bindparam("queue_seconds", type_=Double)),
    )
    .returning(*tasks.columns)
)


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """How many unfinished tasks one user may have, and how long a task may wait for its provider."""

    unfinished: int
    queue_seconds: float


@dataclass(frozen=True, slots=True)
class NewTask:
    """A checked request with its user and ids; the ids are fixed, so that a repeated transaction writes the same."""

    user_id: str
    request: CheckedRequest
    submit_lane: str
    request_id: str | None
    retry_of: str | None = None
    id: str = field(default_factory=new_id)
    message_id: str = field(default_factory=new_id)
    #: It comes back with the provider's callback and cannot be guessed.
    reference: str = field(default_factory=lambda: secrets.token_urlsafe(24))


def create_task(tx: Transaction, engine: Engine, new: NewTask, limits: TaskLimits) -> Task:
    """Write the task with its job, hold, event and placeholder; a refusal writes nothing and holds nothing."""
    request, user_id = new.request, new.user_id
    _require_references(tx, user_id, request.references)
    task = task_from(tx.run(WRITE, **_values(new, limits))[0])
    arguments = {"provider": request.model.provider}
    engine.enqueue(tx, SUBMIT, arguments, key=new.id, lane=new.submit_lane, subject=new.id, request_id=new.request_id)
    event = _event_data(task) | {"prompt": request.prompt[:PROMPT_IN_EVENT]}
    append_event(tx, "task.created", subject=new.id, user_id=user_id, data=event)
    # As late as possible: this locks the user's balance until the commit, and the user's other submits wait for it.
    price = {new.id: request.model.credits}
    hold(tx, user_id=user_id, amounts=price, request_id=new.request_id, most=limits.unfinished)
    if request.conversation_id is not None:
        open_placeholder(
            tx,
            conversation_id=request.conversation_id,
            user_id=user_id,
            task_id=new.id,
            prompt=request.prompt,
            message_id=new.message_id,
            data=_message_data(task),
        )
    return task


def _event_data(task: Task) -> dict[str, Any]:
    return {"type": task.type, "model": task.model, "status": task.status, "conversation_id": task.conversation_id}


def _message_data(task: Task) -> dict[str, Any]:
    """Return what a message says about its task: parameters and price, never an address that expires."""
    return {
        "task_id": task.id,
        "model": task.model,
        "type": task.type,
        "parameters": task.parameters,
        "credits": task.price,
    }


def _values(new: NewTask, limits: TaskLimits) -> dict[str, Any]:
    request = new.request
    return {
        "id": new.id,
        "user_id": new.user_id,
        "conversation_id": request.conversation_id,
        "type": request.model.type,
        "model": request.model.name,
        "provider": request.model.provider,
        "prompt": request.prompt,
        "parameters": request.parameters,
        "references": list(request.references),
        "price": request.model.credits,
        "credits_held": request.model.credits,
        "placeholder_message_id": None if request.conversation_id is None else new.message_id,
        "retry_of": new.retry_of,
        "request_id": new.request_id,
        "reference": new.reference,
        "queue_seconds": limits.queue_seconds,
    }


def _require_references(tx: Transaction, user_id: str, references: tuple[str, ...]) -> None:
    if not references:
        return
    mine = (assets.c.id.in_(references), assets.c.user_id == user_id, assets.c.role == "reference")
    found = set(tx.execute(select(assets.c.id).where(*mine)).scalars())
    missing = [one for one in references if one not in found]
    if missing:
        raise InvalidReferences(
            f"There is no reference image {missing[0]}.", hint="Upload it to POST /v1/references.", missing=missing
        )


# -- starting -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Started:
    """A task that its provider accepted. ``deadline`` is the model's, in seconds from now; None if it is gone."""

    provider_task_id: str
    deadline: float | None


START = Prepared(
    update(tasks)
    .where(tasks.c.id == bindparam("task_id", type_=Identifier), tasks.c.status == "pending")
    .values(
        status="running",
        needs_review=False,
        trouble=null(),
        started_at=NOW,
        provider_task_id=bindparam("remote_id"),
        deadline_at=func.coalesce(later(bindparam("deadline", type_=Double)), tasks.c.deadline_at),
    )
    .returning(tasks.c.type, tasks.c.user_id, tasks.c.request_id, tasks.c.started_at)
)


def start_task(
    tx: Transaction,
    engine: Engine,
    provider: Provider,
    task_id: str,
    started: Started,
    source: random.Random,
) -> bool:
    """Mark the task as running and enqueue its first poll; return False when it has ended already.

    A callback that came before this moment was only recorded, so the first poll is then due at once.
    """
    rows = tx.run(START, task_id=task_id, remote_id=started.provider_task_id, deadline=started.deadline)
    if not rows:
        return False
    [row] = rows
    data = {"status": "running", "started_at": iso_timestamp(row.started_at)}
    append_event(tx, "task.running", subject=task_id, user_id=row.user_id, data=data)
    # A statement of its own, after the row is locked: the update may have waited for a callback's transaction, and
    # would not see what that wrote.
    called_back = started.provider_task_id in reported_ids(tx, task_id)
    engine.enqueue(
        tx,
        POLL,
        # All that a poll needs, so that it reads nothing from the database.
        {"provider": provider.name, "id": started.provider_task_id, "type": row.type, "user": row.user_id},
        key=task_id,
        delay=0.0 if called_back else next_poll(0, source),
        lane=provider.query_lane.name,
        subject=task_id,
        request_id=row.request_id,
    )
    return True


def next_poll(polls: int, source: random.Random) -> float:
    """Return how long to wait after so many polls."""
    seconds = next((seconds for limit, seconds in STEPS if polls < limit), LAST)
    return seconds * source.uniform(1 - SPREAD, 1 + SPREAD)


# -- ending ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unsuccessful:
    """A task to be ended without a result: failed or cancelled."""

    task_id: str
    status: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Successful:
    """A task to be completed with its results."""

    task_id: str
    results: Sequence[NewAsset]


def end_tasks(
    tx: Transaction,
    *,
    successful: Sequence[Successful] = (),
    unsuccessful: Sequence[Unsuccessful] = (),
) -> list[Task]:
    """Complete, fail or cancel tasks with their credits, messages, assets and events; return those that ended now.

    Rows are locked in one order (tasks, holds, balances, conversations), so that two batches never deadlock.
    """
    values: dict[str, dict[str, Any]] = {}
    for done in successful:
        values[done.task_id] = {"status": "completed", "progress": 1.0}
    for one in unsuccessful:
        error = {"fail_code": one.code, "error": one.message[:ERROR_LIMIT]}
        values[one.task_id] = {"status": one.status, "credits_refunded": tasks.c.credits_held, **error}
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
    _append_end_events(tx, ended)
    return ended


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
            data=_message_data(task),
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


def _append_end_events(tx: Transaction, ended: Sequence[Task]) -> None:
    for task in ended:
        data = _event_data(task)
        if task.fail_code is not None:
            data["error"] = {"code": task.fail_code, "message": task.error}
        append_event(tx, f"task.{task.status}", subject=task.id, user_id=task.user_id, data=data)
    tx.signal(ENDED_SIGNAL)


def cancel_task(tx: Transaction, user_id: str, task_id: str) -> Task:
    """Cancel the task and release its credits, even if the provider goes on with it.

    Cancelling again changes nothing; a task that completed or failed is refused.
    """
    task = get_task(tx, user_id, task_id)
    if task.status == "cancelled":
        return task
    if task.unfinished:
        # The job before the task, in the order of workers: else the two could deadlock.
        cancel_of_subjects(tx, [task_id], TASK_KINDS, "cancelled by its user")
        cancelled = Unsuccessful(task_id, "cancelled", "CANCELLED", "Cancelled by its user.")
        ended = end_tasks(tx, unsuccessful=[cancelled])
        if ended:
            return ended[0]
        # It ended while we waited for its row; that end stands.
        task = get_task(tx, user_id, task_id)
    message = f"The task {task_id} is already {task.status} and cannot be cancelled."
    raise StateConflict(message, task_status=task.status)
