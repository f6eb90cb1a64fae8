"""The engine's tables, as Core sees them. Migrations make them; this file only names them."""

from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, MetaData, SmallInteger, Table, Text

from longtake.db.dialects import Identifier, Instant, Json

metadata = MetaData()

#: Jobs that wait or run. Ended ones are moved to ``jobs_ended``, so that this table stays small and hot.
jobs = Table(
    "jobs",
    metadata,
    Column("id", Identifier, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("key", Text),
    Column("lane", Text, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("due_at", Instant, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("crashes", Integer, nullable=False),
    Column("snoozes", Integer, nullable=False),
    Column("alone", Boolean, nullable=False),
    Column("lease_token", Identifier),
    Column("worker", Identifier),
    Column("args", Json, nullable=False),
    Column("memo", Json),
    Column("subject", Text),
    Column("request_id", Text),
    Column("error", Json),
    Column("cancel_requested_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
)

jobs_ended = Table(
    "jobs_ended",
    metadata,
    *(
        Column(column.name, column.type, primary_key=column.primary_key, nullable=column.nullable)
        for column in jobs.columns
        if column.name not in {"due_at", "alone", "lease_token", "cancel_requested_at"}
    ),
    Column("ended_at", Instant, nullable=False),
)

#: What is copied as it is when a job ends.
KEPT = tuple(column.name for column in jobs_ended.columns if column.name not in {"state", "error", "ended_at"})

#: One row for each attempt that ended; a snooze is not an attempt.
job_attempts = Table(
    "job_attempts",
    metadata,
    Column("job_id", Identifier, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("worker", Identifier),
    Column("started_at", Instant),
    Column("ended_at", Instant, nullable=False),
    Column("error", Json),
)

#: What triggers and other processes must know of a kind; written at start by the process that declares it.
job_kinds = Table(
    "job_kinds",
    metadata,
    Column("name", Text, primary_key=True),
    Column("lane", Text, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("paused", Boolean, nullable=False),
)

lanes = Table(
    "lanes",
    metadata,
    Column("name", Text, primary_key=True),
    Column("max_running", Integer),
    Column("rate_count", Integer),
    Column("rate_seconds", Double),
    Column("burst", Integer, nullable=False),
    Column("spacing_seconds", Double),
    Column("limited", Boolean, nullable=False),
    # Who set the limits: what an operator set, a program's declaration does not change.
    Column("set_by", Text, nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("paused_reason", Text),
    # The state of the limits: see lanes.py.
    Column("arrival_at", Instant),
    Column("spaced_at", Instant),
    Column("blocked_until", Instant),
    Column("slowdown", Double, nullable=False),
    Column("slowed_at", Instant),
)

#: A live worker's lease covers all its jobs: one row is renewed, however many jobs it runs.
workers = Table(
    "workers",
    metadata,
    Column("id", Identifier, primary_key=True),
    Column("name", Text, nullable=False),
    Column("incarnation", Text),
    Column("beat", BigInteger, nullable=False),
    Column("lease_until", Instant, nullable=False),
    # The same as long as the worker lives: a beat does not write it.
    Column("lease_seconds", Double, nullable=False),
    Column("started_at", Instant, nullable=False),
)

schedules = Table(
    "schedules",
    metadata,
    Column("name", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("args", Json, nullable=False),
    Column("every_seconds", Double),
    Column("cron", Text),
    Column("paused", Boolean, nullable=False),
    Column("next_at", Instant, nullable=False),
    Column("last_at", Instant),
    Column("last_job_id", Identifier),
)

#: Append-only. The cursor is (transaction_id, sequence): on PostgreSQL sequences may commit out of order.
events = Table(
    "events",
    metadata,
    Column("sequence", BigInteger, primary_key=True),
    Column("transaction_id", BigInteger, nullable=False),
    Column("at", Instant, nullable=False),
    Column("type", Text, nullable=False),
    Column("subject", Text),
    Column("user_id", Text),
    Column("data", Json),
)
