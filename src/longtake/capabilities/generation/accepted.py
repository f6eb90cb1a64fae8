"""A task whose provider works on it: its row says so, and from now on it is followed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from sqlalchemy import Double, bindparam, func, null, update

from longtake.adapters.providers.provider import Provider
from longtake.capabilities.generation.intervals import first_poll
from longtake.capabilities.generation.kinds import POLL
from longtake.capabilities.generation.submissions import was_reported
from longtake.capabilities.generation.tables import tasks
from longtake.capabilities.generation.views import moment
from longtake.db import Transaction
from longtake.db.dialects import NOW, Identifier, later
from longtake.db.prepared import Prepared
from longtake.engine.engine import Engine
from longtake.engine.events import append_event
from longtake.engine.jobs import JobRequest


@dataclass(frozen=True, slots=True)
class Started:
    """The provider works on it; the model's deadline runs from now, unless the model is no longer offered."""

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
    """Write that the provider works on it, and begin to follow; False when the task has ended meanwhile.

    A callback that came before this moment was only noted: the task is then asked about at once.
    """
    rows = tx.run(START, task_id=task_id, remote_id=started.provider_task_id, deadline=started.deadline)
    if not rows:
        return False
    [row] = rows
    data = {"status": "running", "started_at": moment(row.started_at)}
    append_event(tx, "task.running", subject=task_id, user_id=row.user_id, data=data)
    # A statement after the row is ours: one that waited for a callback's transaction would not see what that wrote.
    called_back = was_reported(tx, task_id, started.provider_task_id)
    follow = JobRequest(
        POLL,
        # All a poll must know, so that asking needs no look at the database.
        {"provider": provider.name, "id": started.provider_task_id, "type": row.type, "user": row.user_id},
        key=task_id,
        delay=0.0 if called_back else first_poll(source),
        lane=provider.query_lane.name,
        subject=task_id,
        request_id=row.request_id,
    )
    engine.enqueue_many(tx, [follow])
    return True
