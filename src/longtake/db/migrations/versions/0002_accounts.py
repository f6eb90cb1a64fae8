"""Accounts: API keys for machines, and secrets kept encrypted."""

from alembic import op
from sqlalchemy import CheckConstraint, Column, Text

from longtake.db.dialects import Identifier, Instant, Json
from longtake.db.schema import engine_only, now_default, own_rows, uuid_default

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
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
    engine_only("secrets")


def downgrade() -> None:
    """Remove them."""
    op.drop_table("secrets")
    op.drop_table("api_keys")
