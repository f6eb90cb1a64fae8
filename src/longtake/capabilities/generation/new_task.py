"""Making a task: hold, row, placeholder and job in one transaction, before anybody hears of it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Double, Integer, Text, bindparam, func, insert, select

from longtake.capabilities.generation.kinds import SUBMIT
from longtake.capabilities.generation.tables import IS_UNFINISHED, tasks
from longtake.capabilities.generation.validation import CheckedRequest
from longtake.capabilities.generation.views import Task, task_from
from longtake.clock import new_id
from longtake.db import Transaction
from longtake.db.dialects import NOW, later
from longtake.db.prepared import Prepared
from longtake.engine.engine import Engine
from longtake.engine.events import append_event
from longtake.errors import InvalidReferences, TooManyTasks
from longtake.services.assets import assets
from longtake.services.conversations.messages import open_placeholder
from longtake.services.credits import hold

PROMPT_IN_EVENT = 200

_GIVEN = (
    "id", "user_id", "conversation_id", "type", "model", "provider", "prompt", "parameters", "references", "price",
    "credits_held", "placeholder_message_id", "retry_of", "request_id", "reference",
)  # fmt: skip
WRITE = Prepared(
    insert(tasks)
    .values(
        **{name: bindparam(name, type_=tasks.c[name].type) for name in _GIVEN},
        created_at=NOW,
        # Waiting in the queue has a limit of its own; the model's deadline counts from the provider's acceptance.
        deadline_at=later(bindparam("queue_seconds", type_=Double)),
    )
    .returning(*tasks.columns)
)
_MINE = (
    select(tasks.c.id)
    .where(tasks.c.user_id == bindparam("user_id", type_=Text), IS_UNFINISHED)
    .limit(bindparam("most", type_=Integer))
)
COUNT = Prepared(select(func.count().label("number")).select_from(_MINE.subquery()))


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one user may have under way, and how long a task may wait for its provider."""

    unfinished: int
    queue_seconds: float


@dataclass(frozen=True, slots=True)
class NewTask:
    """A checked request and whose it is. Ids are made here, so that running the transaction again changes nothing."""

    user_id: str
    request: CheckedRequest
    submit_lane: str
    request_id: str | None
    retry_of: str | None
    id: str
    message_id: str
    reference: str

    @staticmethod
    def of(
        user_id: str, request: CheckedRequest, submit_lane: str, request_id: str | None, retry_of: str | None = None
    ) -> NewTask:
        """Give the task its ids. The reference comes back with the provider's callback and cannot be guessed."""
        names = (new_id(), new_id(), secrets.token_urlsafe(24))
        return NewTask(user_id, request, submit_lane, request_id, retry_of, *names)


def create_task(tx: Transaction, engine: Engine, new: NewTask, limits: Limits) -> Task:
    """Write the task with all that belongs to it; on any refusal nothing is written and nothing is held."""
    request, user_id = new.request, new.user_id
    _require_room(tx, user_id, limits.unfinished)
    _require_references(tx, user_id, request.references)
    [row] = tx.run(WRITE, **_values(new, limits))
    arguments = {"provider": request.model.provider}
    engine.enqueue(tx, SUBMIT, arguments, key=new.id, lane=new.submit_lane, subject=new.id, request_id=new.request_id)
    shown = {"type": request.model.type, "model": request.model.name, "prompt": request.prompt[:PROMPT_IN_EVENT]}
    event = {**shown, "status": "pending", "conversation_id": request.conversation_id}
    append_event(tx, "task.created", subject=new.id, user_id=user_id, data=event)
    # Late: the user's balance is locked from here to the commit, and all submits of the user wait for it.
    hold(tx, user_id=user_id, task_id=new.id, amount=request.model.credits, request_id=new.request_id)
    if request.conversation_id is not None:
        open_placeholder(
            tx,
            conversation_id=request.conversation_id,
            user_id=user_id,
            task_id=new.id,
            prompt=request.prompt,
            message_id=new.message_id,
            data=about(new.id, request.model.name, request.model.type, request.parameters, request.model.credits),
        )
    return task_from(row)


def about(task_id: str, model: str, type: str, parameters: dict[str, Any], credits: int) -> dict[str, Any]:  # noqa: A002
    """Return what a message says of its task: request parameters and cost, never an address that dies."""
    return {"task_id": task_id, "model": model, "type": type, "parameters": parameters, "credits": credits}


def _values(new: NewTask, limits: Limits) -> dict[str, Any]:
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


def _require_room(tx: Transaction, user_id: str, most: int) -> None:
    if tx.run(COUNT, user_id=user_id, most=most)[0].number >= most:
        raise TooManyTasks(f"{most:,} tasks are under way for this user; wait until some have ended.", limit=most)


def _require_references(tx: Transaction, user_id: str, references: tuple[str, ...]) -> None:
    if not references:
        return
    mine = (assets.c.id.in_(references), assets.c.user_id == user_id, assets.c.role == "reference")
    found = set(tx.execute(select(assets.c.id).where(*mine)).scalars())
    missing = [one for one in references if one not in found]
    if missing:
        raise InvalidReferences(
            f"There is no reference image {missing[0]}.", hint="POST /v1/references uploads one.", missing=missing
        )
