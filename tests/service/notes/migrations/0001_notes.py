"""Notes."""

from alembic import op
from sqlalchemy import Column, Integer, Text

from longtake.db.dialects import Identifier
from longtake.db.schema import own_rows


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "notes",
        Column("id", Identifier, primary_key=True),
        Column("user_id", Text, nullable=False),
        Column("text", Text, nullable=False),
        Column("words", Integer),
    )
    own_rows("notes")


def downgrade() -> None:
    """Remove it."""
    op.drop_table("notes")
