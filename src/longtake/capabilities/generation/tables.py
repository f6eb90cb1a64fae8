"""The tables of generation, as Core sees them. Migrations make them; this file only names them."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    Integer,
    MetaData,
    Table,
    Text,
    literal_column,
)

from longtake.db.dialects import Identifier, Instant, Json

metadata = MetaData()

#: What users asked for, and how far it is.
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
#: For what looks through all tasks: written as the partial indexes have it, because SQLite does not see that a list of
#: parameters means the same, and would read the whole table.
IS_UNFINISHED: ColumnElement[bool] = literal_column("tasks.status IN ('pending', 'running')")

#: What providers were asked and what they answered. Only ever added to, also by a worker that lost its lease: a fact
#: from outside must not be lost to the fence.
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
