"""What pages and consoles ask often: figures of tasks that ended lately, and what a user has not read yet."""

from alembic import op

from longtake.db.schema import partial_index

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the indexes."""
    # Lists without a filter are read by status: nobody uses this one any more.
    op.drop_index("tasks_user", "tasks")
    # All that the figures need stands in the index, so that they read no rows. When a running task was last asked
    # about is in none: every poll would have to write there.
    columns = ["ended_at", "type", "status", "started_at", "created_at"]
    partial_index("tasks_ended", "tasks", columns, "ended_at IS NOT NULL")
    partial_index("conversations_unread", "conversations", ["user_id", "unread"], "unread > 0")


def downgrade() -> None:
    """Remove them."""
    op.create_index("tasks_user", "tasks", ["user_id", "id"])
    op.drop_index("conversations_unread", "conversations")
    op.drop_index("tasks_ended", "tasks")
