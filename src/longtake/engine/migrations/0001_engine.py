"""The engine: jobs, their history, lanes, workers, schedules and events."""

from typing import Any

from alembic import op
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    Integer,
    SmallInteger,
    Text,
    false,
)

from longtake.db.dialects import Identifier, Instant, Json
from longtake.db.schema import (
    POSTGRESQL_NEW_ID,
    REFUSE_FUNCTION,
    engine_only,
    is_postgresql,
    now_default,
    own_rows,
    partial_index,
    refuse,
    uuid_default,
)

OF_NO_USER = ("schedules", "workers", "lanes", "job_kinds", "job_attempts", "jobs_ended", "jobs", "events_forgotten")


def upgrade() -> None:
    """Make the tables; on PostgreSQL also functions, roles, row level security and storage settings."""
    if is_postgresql():
        _make_functions_and_roles()
    _jobs()
    _history()
    _coordination()
    _events()
    engine_only("longtake_migrations", *OF_NO_USER)
    own_rows("events")
    refuse("UPDATE", "events", "events_append_only")
    if is_postgresql():
        op.execute("GRANT SELECT ON events_forgotten TO longtake_api")
        # Dead rows, not depth, slow a queue: clean up early and without pauses.
        op.execute(
            "ALTER TABLE jobs SET (autovacuum_vacuum_scale_factor = 0.02,"
            " autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)"
        )


def downgrade() -> None:
    """Remove them. The roles stay: other databases of the same server may use them."""
    for table in ("events", *OF_NO_USER):
        op.drop_table(table)
    if is_postgresql():
        for function in (REFUSE_FUNCTION, "longtake_new_id", "longtake_now"):
            op.execute(f"DROP FUNCTION {function}()")


def _shared_columns() -> list[Column[Any]]:
    """Return what live and ended jobs have in common."""
    return [
        Column("id", Identifier, primary_key=True, server_default=uuid_default()),
        Column("kind", Text, nullable=False),
        Column("key", Text),
        Column("lane", Text, nullable=False, server_default="default"),
        Column("priority", SmallInteger, nullable=False, server_default="2"),
        Column("state", Text, nullable=False, server_default="ready"),
        Column("attempt", Integer, nullable=False, server_default="0"),
        Column("max_attempts", Integer, nullable=False, server_default="5"),
        Column("crashes", Integer, nullable=False, server_default="0"),
        Column("snoozes", Integer, nullable=False, server_default="0"),
        Column("worker", Identifier),
        Column("args", Json, nullable=False, server_default="{}"),
        Column("memo", Json),
        Column("subject", Text),
        Column("request_id", Text),
        Column("error", Json),
        Column("created_at", Instant, nullable=False, server_default=now_default()),
        Column("started_at", Instant),
    ]


def _jobs() -> None:
    op.create_table(
        "jobs",
        *_shared_columns(),
        Column("due_at", Instant, nullable=False, server_default=now_default()),
        Column("alone", Boolean, nullable=False, server_default=false()),
        Column("lease_token", Identifier),
        Column("cancel_requested_at", Instant),
        CheckConstraint("state IN ('ready', 'running')", name="jobs_state"),
        CheckConstraint("(state = 'running') = (lease_token IS NOT NULL)", name="jobs_lease"),
        CheckConstraint("priority BETWEEN 0 AND 3", name="jobs_priority"),
    )
    # One range per queue (lane, kind, priority), in the order of claiming: no sort, no statistics needed.
    partial_index("jobs_ready", "jobs", ["lane", "kind", "priority", "due_at"], "state = 'ready'")
    partial_index("jobs_running", "jobs", ["lane"], "state = 'running'")
    partial_index("jobs_key", "jobs", ["kind", "key"], "key IS NOT NULL", unique=True)
    partial_index("jobs_cancelling", "jobs", ["id"], "cancel_requested_at IS NOT NULL")
    for column in ("subject", "request_id"):
        partial_index(f"jobs_{column}", "jobs", [column], f"{column} IS NOT NULL")


def _history() -> None:
    op.create_table(
        "jobs_ended",
        *_shared_columns(),
        Column("ended_at", Instant, nullable=False, server_default=now_default()),
        CheckConstraint("state IN ('done', 'failed', 'cancelled')", name="jobs_ended_state"),
    )
    partial_index("jobs_failed", "jobs_ended", ["ended_at"], "state = 'failed'")
    for column in ("subject", "request_id"):
        partial_index(f"jobs_ended_{column}", "jobs_ended", [column], f"{column} IS NOT NULL")
    op.create_table(
        "job_attempts",
        Column("job_id", Identifier, nullable=False),
        Column("attempt", Integer, nullable=False),
        Column("outcome", Text, nullable=False),
        Column("worker", Identifier),
        Column("started_at", Instant),
        Column("ended_at", Instant, nullable=False, server_default=now_default()),
        Column("error", Json),
    )
    op.create_index("job_attempts_job", "job_attempts", ["job_id"])


def _coordination() -> None:
    op.create_table(
        "job_kinds",
        Column("name", Text, primary_key=True),
        Column("lane", Text, nullable=False),
        Column("priority", SmallInteger, nullable=False),
        Column("max_attempts", Integer, nullable=False),
        Column("paused", Boolean, nullable=False, server_default=false()),
    )
    op.create_table(
        "lanes",
        Column("name", Text, primary_key=True),
        Column("max_running", Integer),
        Column("rate_count", Integer),
        Column("rate_seconds", Double),
        Column("burst", Integer, nullable=False, server_default="1"),
        Column("spacing_seconds", Double),
        Column("limited", Boolean, nullable=False, server_default=false()),
        Column("set_by", Text, nullable=False, server_default="program"),
        Column("paused", Boolean, nullable=False, server_default=false()),
        Column("paused_reason", Text),
        Column("arrival_at", Instant),
        Column("spaced_at", Instant),
        Column("blocked_until", Instant),
        Column("slowdown", Double, nullable=False, server_default="1"),
        Column("slowed_at", Instant),
    )
    op.create_table(
        "workers",
        Column("id", Identifier, primary_key=True),
        Column("name", Text, nullable=False),
        Column("incarnation", Text),
        Column("beat", BigInteger, nullable=False),
        Column("lease_until", Instant, nullable=False),
        Column("started_at", Instant, nullable=False, server_default=now_default()),
        # A worker is judged by the length of its own lease, not by that of the one that watches it.
        Column("lease_seconds", Double, nullable=False, server_default="30"),
    )
    op.create_table(
        "schedules",
        Column("name", Text, primary_key=True),
        Column("kind", Text, nullable=False),
        Column("args", Json, nullable=False, server_default="{}"),
        Column("every_seconds", Double),
        Column("cron", Text),
        Column("paused", Boolean, nullable=False, server_default=false()),
        Column("next_at", Instant, nullable=False),
        Column("last_at", Instant),
        Column("last_job_id", Identifier),
    )


def _events() -> None:
    if is_postgresql():
        op.execute(
            "CREATE TABLE events (sequence bigint GENERATED ALWAYS AS IDENTITY,"
            " transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(),"
            " at timestamptz NOT NULL DEFAULT longtake_now(),"
            " type text NOT NULL, subject text, user_id text, data jsonb,"
            " PRIMARY KEY (transaction_id, sequence))"
        )
    else:
        op.create_table(
            "events",
            Column("sequence", Integer, primary_key=True, autoincrement=True),
            Column("transaction_id", BigInteger, nullable=False, server_default="0"),
            Column("at", Instant, nullable=False, server_default=now_default()),
            Column("type", Text, nullable=False),
            Column("subject", Text),
            Column("user_id", Text),
            Column("data", Json),
            # Numbers of deleted rows are never given again: a reader's cursor stays valid.
            sqlite_autoincrement=True,
        )
    # By it a reader who was away finds a user's events.
    partial_index("events_user", "events", ["user_id", "transaction_id", "sequence"], "user_id IS NOT NULL")
    op.create_table(
        "events_forgotten",
        Column("id", SmallInteger, primary_key=True, server_default="1"),
        # The last event that was removed: a reader that has not read so far has missed something.
        Column("transaction_id", BigInteger, nullable=False, server_default="0"),
        Column("sequence", BigInteger, nullable=False, server_default="0"),
        CheckConstraint("id = 1", name="events_forgotten_one"),
    )
    op.execute("INSERT INTO events_forgotten (id) VALUES (1)")


def _make_functions_and_roles() -> None:
    # Every statement asks this function for the time. PostgreSQL inlines it, so it costs nothing and hides no
    # index; tests put another in its place. It begins with our name because it lives beside others' functions.
    op.execute("CREATE FUNCTION longtake_now() RETURNS timestamptz LANGUAGE sql STABLE RETURN pg_catalog.now()")
    op.execute(POSTGRESQL_NEW_ID)
    op.execute(
        f"CREATE FUNCTION {REFUSE_FUNCTION}() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS"
        " $$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
    )
    # Users' requests run as longtake_api, the program itself as a member of longtake_engine.
    for role in ("longtake_api", "longtake_engine"):
        op.execute(
            f"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN"
            f" CREATE ROLE {role} NOLOGIN; END IF;"
            f" EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
        )
        op.execute(
            f"DO $$ BEGIN IF NOT pg_has_role(current_user, '{role}', 'USAGE') THEN"
            f" EXECUTE format('GRANT {role} TO %I', current_user); END IF; END $$"
        )
