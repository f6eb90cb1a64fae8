"""Webhooks: users' endpoints with sealed secrets, what was sent to them, and how far the event log has been read."""

from alembic import op
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Integer,
    SmallInteger,
    Text,
    UniqueConstraint,
    true,
)

from longtake.db.dialects import Identifier, Instant, Json
from longtake.db.schema import engine_only, now_default, own_rows, partial_index, uuid_default


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "webhook_endpoints",
        Column("id", Identifier, primary_key=True, server_default=uuid_default()),
        Column("user_id", Text, nullable=False),
        Column("url", Text, nullable=False),
        Column("description", Text, nullable=False, server_default=""),
        # Patterns such as "task.completed" or "task.*"; an empty list means all.
        Column("events", Json, nullable=False, server_default="[]"),
        # Sealed. The one before it signs as well until it ends, so that a receiver can change over without a gap.
        Column("secret", Text, nullable=False),
        Column("previous_secret", Text),
        Column("previous_ends_at", Instant),
        Column("enabled", Boolean, nullable=False, server_default=true()),
        Column("disabled_reason", Text),
        # Where the log of events was when it was made, or enabled again: only what comes after is sent.
        Column("since_transaction", BigInteger, nullable=False, server_default="0"),
        Column("since_sequence", BigInteger, nullable=False, server_default="0"),
        # Of PostgreSQL: which transactions were over by then. Others may have begun before and still had to commit.
        Column("since_snapshot", Text),
        Column("last_success_at", Instant),
        Column("created_at", Instant, nullable=False, server_default=now_default()),
        Column("changed_at", Instant, nullable=False, server_default=now_default()),
    )
    op.create_index("webhook_endpoints_user", "webhook_endpoints", ["user_id", "id"])
    partial_index("webhook_endpoints_since", "webhook_endpoints", ["since_transaction", "since_sequence"], "enabled")
    op.create_table(
        "webhook_deliveries",
        Column("id", Identifier, primary_key=True, server_default=uuid_default()),
        Column("endpoint_id", Identifier, ForeignKey("webhook_endpoints.id", ondelete="CASCADE"), nullable=False),
        Column("user_id", Text, nullable=False),
        # The event's place in the log; null for a test on request.
        Column("event", Text),
        Column("type", Text, nullable=False),
        # Text, not JSON: what is signed is these very bytes, at every try.
        Column("payload", Text, nullable=False),
        Column("state", Text, nullable=False, server_default="pending"),
        Column("attempts", Integer, nullable=False, server_default="0"),
        Column("status_code", Integer),
        Column("seconds", Double),
        Column("error", Text),
        Column("next_at", Instant),
        Column("created_at", Instant, nullable=False, server_default=now_default()),
        Column("ended_at", Instant),
        CheckConstraint("state IN ('pending', 'delivered', 'failed')", name="webhook_deliveries_state"),
        # One event goes to one endpoint once, however often the log is read.
        UniqueConstraint("endpoint_id", "event"),
    )
    op.create_index("webhook_deliveries_endpoint", "webhook_deliveries", ["endpoint_id", "id"])
    # Few among many that were delivered; those need no index of their own.
    for state in ("pending", "failed"):
        partial_index(f"webhook_deliveries_{state}", "webhook_deliveries", ["endpoint_id", "id"], f"state = '{state}'")
    op.create_table(
        "webhook_cursor",
        Column("id", SmallInteger, primary_key=True, server_default="1"),
        Column("transaction_id", BigInteger, nullable=False, server_default="0"),
        Column("sequence", BigInteger, nullable=False, server_default="0"),
        CheckConstraint("id = 1", name="webhook_cursor_one"),
    )
    op.execute("INSERT INTO webhook_cursor (id) VALUES (1)")
    own_rows("webhook_endpoints", "webhook_deliveries")
    engine_only("webhook_cursor")


def downgrade() -> None:
    """Remove them."""
    for table in ("webhook_cursor", "webhook_deliveries", "webhook_endpoints"):
        op.drop_table(table)
