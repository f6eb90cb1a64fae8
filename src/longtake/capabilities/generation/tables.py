"""The tables of generation, the names of its job kinds, and how a user's tasks are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    Integer,
    MetaData,
    Row,
    Table,
    Text,
    literal_column,
    select,
    union_all,
)

from longtake.db import Transaction
from longtake.db.dialects import Identifier, Instant, Json
from longtake.errors import NotFound

#: Job kinds.
SUBMIT = "generation.submit"
POLL = "generation.poll"
ATTACH = "generation.attach"
SWEEP = "generation.sweep"
CHECK = "generation.check"
PRUNE = "generation.prune"
#: The kinds whose jobs are about one task; their subject is its id.
TASK_KINDS = (SUBMIT, POLL, ATTACH)

#: Unfinished tasks that are shown at once.
PENDING_LIMIT = 500

#: Migrations create these tables; here they are only declared.
metadata = MetaData()

#: What users asked for, and how far it has got.
tasks = Table(
    "tasks",
    metadata,
    Column("id", Identifier, primary_key=True),
    *(Column(name, Text) for name in ("user_id", "type", "model", "provider", "prompt", "request_id", "reference")),
    *(Column(name, Text) for name in ("status", "provider_task_id", "fail_code", "error")),
    *(Column(name, Identifier) for name in ("conversation_id", "placeholder_message_id", "completed_message_id")),
    Column("retry_of", Identifier),
    *(Column(name, Json) for name in ("parameters", "references", "trouble")),
    *(Column(name, BigInteger) for name in ("price", "credits_held", "credits_refunded")),
    *(Column(name, Instant) for name in ("created_at", "last_polled_at", "started_at", "deadline_at", "ended_at")),
    Column("needs_review", Boolean),
    Column("progress", Double),
    Column("poll_count", Integer),
)

UNFINISHED = ("pending", "running")
STATUSES = (*UNFINISHED, "completed", "failed", "cancelled")
#: Spelled exactly as in the partial indexes: SQLite does not see that a list of parameters means the same, and would
#: scan the whole table.
IS_UNFINISHED: ColumnElement[bool] = literal_column("tasks.status IN ('pending', 'running')")

#: What we sent to providers and what they answered. Insert-only, and open even to a worker that lost its lease: the
#: fence must not discard what a provider said.
submissions = Table(
    "submissions",
    metadata,
    Column("number", BigInteger, primary_key=True),
    Column("task_id", Identifier),
    *(Column(name, Text) for name in ("provider", "fact", "provider_task_id", "detail")),
    Column("at", Instant),
)


@dataclass(frozen=True, slots=True)
class Task:
    """One row of tasks, with the columns in their order."""

    id: str
    user_id: str
    conversation_id: str | None
    type: str
    model: str
    provider: str
    prompt: str
    parameters: dict[str, Any]
    references: list[str]
    price: int
    credits_held: int
    credits_refunded: int
    placeholder_message_id: str | None
    completed_message_id: str | None
    retry_of: str | None
    request_id: str | None
    reference: str
    created_at: datetime
    status: str
    needs_review: bool
    provider_task_id: str | None
    progress: float | None
    trouble: dict[str, Any] | None
    fail_code: str | None
    error: str | None
    poll_count: int
    last_polled_at: datetime | None
    started_at: datetime | None
    deadline_at: datetime
    ended_at: datetime | None

    @property
    def unfinished(self) -> bool:
        return self.status in UNFINISHED


_FIELDS = [field.name for field in fields(Task)]


def task_from(row: Row[Any]) -> Task:
    """Return the task in a row that has all columns of ``tasks``."""
    return Task(**{name: getattr(row, name) for name in _FIELDS})


# -- a user's tasks ----------------------------------------------------------------------------------------------


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
