"""What all services stand on: alerts, API keys for machines, and secrets kept encrypted."""

from alembic import op
from sqlalchemy import CheckConstraint, Column, Integer, Text

from longtake.db.dialects import Identifier, Instant, Json
from longtake.db.schema import engine_only, now_default, own_rows, partial_index, uuid_default


def upgrade() -> None:
    """Make the tables."""
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
    # The same trouble twice is one alert with a count, until it is resolved.
    partial_index("alerts_live", "alerts", ["code", "subject"], "state <> 'resolved'", unique=True)
    op.create_table(
        "api_keys",
        Column("id", Identifier, primary_key=True, server_default=uuid_default()),
        Column("user_id", Text, nullable=False),
        Column("name", Text, nullable=False),
        # The beginning of the key, so that people recognise it; the key itself is kept nowhere.
        Column("prefix", Text, nullable=False),
        Column("digest", Text, nullable=False, unique=True),
        Column("role", Text, nullable=False),
        Column("scopes", Json, nullable=False),
        Column("created_at", Instant, nullable=False, server_default=now_default()),
        Column("expires_at", Instant),
        Column("last_used_at", Instant),
        Column("revoked_at", Instant),
        CheckConstraint("role IN ('user', 'operator', 'admin', 'service')", name="api_keys_role"),
    )
    op.create_index("api_keys_user", "api_keys", ["user_id", "id"])
    op.create_table(
        "secrets",
        Column("name", Text, primary_key=True),
        # Which master key it was encrypted with: rotation goes key by key.
        Column("key_id", Text, nullable=False),
        Column("sealed", Text, nullable=False),
        Column("created_at", Instant, nullable=False, server_default=now_default()),
        Column("changed_at", Instant, nullable=False, server_default=now_default()),
    )
    own_rows("api_keys")
    engine_only("secrets", "alerts")


def downgrade() -> None:
    """Remove them."""
    for table in ("secrets", "api_keys", "alerts"):
        op.drop_table(table)
