"""Live events: found by their user, and how far the log has been forgotten."""

from alembic import op
from sqlalchemy import BigInteger, CheckConstraint, Column, SmallInteger

from longtake.db.schema import engine_only, is_postgresql, partial_index

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the index by which a reader who was away finds its events, and the row that says what is gone."""
    partial_index("events_user", "events", ["user_id", "transaction_id", "sequence"], "user_id IS NOT NULL")
    op.create_table(
        "events_forgotten",
        Column("id", SmallInteger, primary_key=True, server_default="1"),
        # The last event that was removed: whoever has not read so far has missed something.
        Column("transaction_id", BigInteger, nullable=False, server_default="0"),
        Column("sequence", BigInteger, nullable=False, server_default="0"),
        CheckConstraint("id = 1", name="events_forgotten_one"),
    )
    op.execute("INSERT INTO events_forgotten (id) VALUES (1)")
    engine_only("events_forgotten")
    if is_postgresql():
        op.execute("GRANT SELECT ON events_forgotten TO longtake_api")


def downgrade() -> None:
    """Remove them."""
    op.drop_table("events_forgotten")
    op.drop_index("events_user", "events")
