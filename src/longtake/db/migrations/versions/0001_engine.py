"""The engine: jobs, their history, lanes, workers, schedules, events; and alerts."""

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
    text,
)

from longtake.db.dialects import POSTGRESQL, Identifier, Instant, Json
from longtake.db.schema import POSTGRESQL_NEW_ID, now_default, uuid_default

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = ("alerts", "events", "schedules", "workers", "lanes", "job_kinds", "job_attempts", "jobs_ended", "jobs")


def upgrade() -> None:
    """Make the tables; on PostgreSQL also roles, row level security and storage settings."""
    if op.get_bind().dialect.name == POSTGRESQL:
        # Every statement asks this function for the time. PostgreSQL inlines it, so it costs nothing and hides no
        # index; tests put another in its place. It begins with our name because it lives beside others' functions.
        op.execute("CREATE FUNCTION longtake_now() RETURNS timestamptz LANGUAGE sql STABLE RETURN pg_catalog.now()")
        op.execute(POSTGRESQL_NEW_ID)
    _jobs()
    _history()
    _coordination()
    _events()
    _alerts()
    if op.get_bind().dialect.name == POSTGRESQL:
        _postgresql()
    else:
        _sqlite()


def downgrade() -> None:
    """Remove them. The roles stay: other databases of the same server may use them."""
    for table in TABLES:
        op.drop_table(table)
    if op.get_bind().dialect.name == POSTGRESQL:
        op.execute("DROP FUNCTION longtake_events_append_only()")
        op.execute("DROP FUNCTION longtake_new_id()")
        op.execute("DROP FUNCTION longtake_now()")


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
    ready, running = text("state = 'ready'"), text("state = 'running'")
    # One range per queue (lane, kind, priority), in the order of claiming: no sort, no statistics needed.
    op.create_index(
        "jobs_ready",
        "jobs",
        ["lane", "kind", "priority", "due_at"],
        postgresql_where=ready,
        sqlite_where=ready,
    )
    op.create_index("jobs_running", "jobs", ["lane"], postgresql_where=running, sqlite_where=running)
    keyed = text("key IS NOT NULL")
    op.create_index("jobs_key", "jobs", ["kind", "key"], unique=True, postgresql_where=keyed, sqlite_where=keyed)
    cancelling = text("cancel_requested_at IS NOT NULL")
    op.create_index("jobs_cancelling", "jobs", ["id"], postgresql_where=cancelling, sqlite_where=cancelling)
    for column in ("subject", "request_id"):
        given = text(f"{column} IS NOT NULL")
        op.create_index(f"jobs_{column}", "jobs", [column], postgresql_where=given, sqlite_where=given)


def _history() -> None:
    op.create_table(
        "jobs_ended",
        *_shared_columns(),
        Column("ended_at", Instant, nullable=False, server_default=now_default()),
        CheckConstraint("state IN ('done', 'failed', 'cancelled')", name="jobs_ended_state"),
    )
    failed = text("state = 'failed'")
    op.create_index("jobs_failed", "jobs_ended", ["ended_at"], postgresql_where=failed, sqlite_where=failed)
    for column in ("subject", "request_id"):
        given = text(f"{column} IS NOT NULL")
        op.create_index(f"jobs_ended_{column}", "jobs_ended", [column], postgresql_where=given, sqlite_where=given)
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
    columns: list[Column[Any]] = [
        Column("at", Instant, nullable=False, server_default=now_default()),
        Column("type", Text, nullable=False),
        Column("subject", Text),
        Column("user_id", Text),
        Column("data", Json),
    ]
    if op.get_bind().dialect.name == POSTGRESQL:
        op.execute(
            "CREATE TABLE events (sequence bigint GENERATED ALWAYS AS IDENTITY,"
            " transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(),"
            " at timestamptz NOT NULL DEFAULT longtake_now(),"
            " type text NOT NULL, subject text, user_id text, data jsonb,"
            " PRIMARY KEY (transaction_id, sequence))"
        )
        return
    op.create_table(
        "events",
        Column("sequence", Integer, primary_key=True, autoincrement=True),
        Column("transaction_id", BigInteger, nullable=False, server_default="0"),
        *columns,
        # Numbers of deleted rows are never given again: a reader's cursor stays valid.
        sqlite_autoincrement=True,
    )


def _alerts() -> None:
    op.create_table(
        "alerts",
        Column("id", Identifier, primary_key=True, server_default=uuid_default()),
        Column("severity", Text, nullable=False),
        Column("code", Text, nullable=False),
        Column("subject", Text, nullable=False, server_default=""),
        Column("message", Text, nullable=False),
        Column("state", Text, nullable=False, server_default="open"),
        Column("count", Integer, nullable=False, server_default="1"),
        Column("first_at", Instant, nullable=False, server_default=now_default()),
        Column("last_at", Instant, nullable=False, server_default=now_default()),
        Column("acknowledged_by", Text),
        Column("resolved_at", Instant),
        CheckConstraint("severity IN ('CRITICAL', 'WARNING', 'INFO')", name="alerts_severity"),
        CheckConstraint("state IN ('open', 'acknowledged', 'resolved')", name="alerts_state"),
    )
    live = text("state <> 'resolved'")
    # The same trouble twice is one alert with a count, until somebody resolves it.
    op.create_index("alerts_live", "alerts", ["code", "subject"], unique=True, postgresql_where=live, sqlite_where=live)


def _sqlite() -> None:
    op.execute(
        "CREATE TRIGGER events_append_only BEFORE UPDATE ON events"
        " BEGIN SELECT RAISE(ABORT, 'events are append-only'); END"
    )


def _postgresql() -> None:
    op.execute(
        "CREATE FUNCTION longtake_events_append_only() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS"
        " $$ BEGIN RAISE EXCEPTION 'events are append-only'; END $$"
    )
    op.execute(
        "CREATE TRIGGER events_append_only BEFORE UPDATE ON events"
        " FOR EACH ROW EXECUTE FUNCTION longtake_events_append_only()"
    )
    # Dead rows, not depth, slow a queue: clean up early and without pauses.
    op.execute(
        "ALTER TABLE jobs SET (autovacuum_vacuum_scale_factor = 0.02,"
        " autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)"
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
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO longtake_engine")
    op.execute("GRANT SELECT ON events TO longtake_api")
    op.execute("ALTER TABLE events ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE events FORCE ROW LEVEL SECURITY")
    op.execute("CREATE POLICY events_engine ON events TO longtake_engine USING (true) WITH CHECK (true)")
    # An empty or missing setting matches nobody: user ids are never empty.
    op.execute(
        "CREATE POLICY events_own ON events FOR SELECT TO longtake_api"
        " USING (user_id = nullif(current_setting('longtake.user', true), ''))"
    )
