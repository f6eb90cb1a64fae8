"""The tables of generation, one row of ``tasks`` as Python sees it, and the names of the job kinds."""

from __future__ import annotations

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
)

from longtake.db.dialects import Identifier, Instant, Json

#: Job kinds.
SUBMIT = "generation.submit"
POLL = "generation.poll"
ATTACH = "generation.attach"
SWEEP = "generation.sweep"
CHECK = "generation.check"
PRUNE = "generation.prune"
#: The kinds whose jobs are about one task; their subject is its id.
TASK_KINDS = (SUBMIT, POLL, ATTACH)

#: Migrations create these tables; here they are only declared.
metadata = MetaData()

#: What users asked for, and how far it has got.
tasks = Table(
    "tasks",
    metadata,
    Column("id", Identifier, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("conversation_id", Identifier),
    Column("type", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("prompt", Text, nullable=False),
    Column("parameters", Json, nullable=False),
    Column("references", Json, nullable=False),
    Column("price", BigInteger, nullable=False),
    Column("credits_held", BigInteger, nullable=False),
    Column("credits_refunded", BigInteger, nullable=False),
    Column("placeholder_message_id", Identifier),
    Column("completed_message_id", Identifier),
    Column("retry_of", Identifier),
    Column("request_id", Text),
    Column("reference", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("status", Text, nullable=False),
    Column("needs_review", Boolean, nullable=False),
    Column("provider_task_id", Text),
    Column("progress", Double),
    Column("trouble", Json),
    Column("fail_code", Text),
    Column("error", Text),
    Column("poll_count", Integer, nullable=False),
    Column("last_polled_at", Instant),
    Column("started_at", Instant),
    Column("deadline_at", Instant, nullable=False),
    Column("ended_at", Instant),
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
    Column("task_id", Identifier, nullable=False),
    Column("provider", Text, nullable=False),
    Column("fact", Text, nullable=False),
    Column("provider_task_id", Text),
    Column("detail", Text),
    Column("at", Instant, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Task:
    """One row of tasks."""

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
        """Return whether it has not ended yet."""
        return self.status in UNFINISHED


_FIELDS = [field.name for field in fields(Task)]


def task_from(row: Row[Any]) -> Task:
    """Return the task in a row that has all columns of ``tasks``."""
    return Task(**{name: getattr(row, name) for name in _FIELDS})
