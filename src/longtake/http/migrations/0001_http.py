"""Idempotency keys: which answer a request got that may be sent again."""

from alembic import op
from sqlalchemy import Column, PrimaryKeyConstraint, SmallInteger, Text

from longtake.db.dialects import Instant, Json
from longtake.db.schema import now_default, own_rows


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "idempotency_keys",
        Column("user_id", Text, nullable=False),
        Column("route", Text, nullable=False),
        Column("key", Text, nullable=False),
        Column("fingerprint", Text, nullable=False),
        Column("status", SmallInteger, nullable=False),
        Column("answer", Json, nullable=False),
        Column("created_at", Instant, nullable=False, server_default=now_default()),
        PrimaryKeyConstraint("user_id", "route", "key"),
    )
    op.create_index("idempotency_keys_age", "idempotency_keys", ["created_at"])
    own_rows("idempotency_keys")


def downgrade() -> None:
    """Remove it."""
    op.drop_table("idempotency_keys")
