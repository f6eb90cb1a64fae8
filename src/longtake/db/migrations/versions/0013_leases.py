"""How long each worker's lease is: whoever watches it judges it by that, not by the length of its own."""

from alembic import op
from sqlalchemy import Column, Double

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; workers that are there already count as having the lease that Longtake is shipped with."""
    op.add_column("workers", Column("lease_seconds", Double, nullable=False, server_default="30"))


def downgrade() -> None:
    """Remove it."""
    op.drop_column("workers", "lease_seconds")
