"""Conversations and their messages."""

from alembic import op
from sqlalchemy import CheckConstraint, Column, ForeignKey, Integer, Text

from longtake.db.dialects import Identifier, Instant, Json
from longtake.db.schema import now_default, own_rows, partial_index, uuid_default


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "conversations",
        Column("id", Identifier, primary_key=True, server_default=uuid_default()),
        Column("user_id", Text, nullable=False),
        Column("title", Text, nullable=False, server_default=""),
        Column("unread", Integer, nullable=False, server_default="0"),
        Column("created_at", Instant, nullable=False, server_default=now_default()),
        Column("changed_at", Instant, nullable=False, server_default=now_default()),
        CheckConstraint("unread >= 0", name="conversations_unread"),
    )
    op.create_index("conversations_user", "conversations", ["user_id", "changed_at", "id"])
    partial_index("conversations_unread", "conversations", ["user_id", "unread"], "unread > 0")
    op.create_table(
        "messages",
        Column("id", Identifier, primary_key=True, server_default=uuid_default()),
        Column("conversation_id", Identifier, ForeignKey("conversations.id", ondelete="CASCADE"), nullable=False),
        Column("user_id", Text, nullable=False),
        Column("role", Text, nullable=False),
        # An assistant's message is a placeholder while its task is under way, and changes once.
        Column("state", Text, nullable=False, server_default="completed"),
        Column("text", Text, nullable=False, server_default=""),
        Column("task_id", Identifier),
        Column("data", Json),
        Column("created_at", Instant, nullable=False, server_default=now_default()),
        Column("changed_at", Instant, nullable=False, server_default=now_default()),
        CheckConstraint("role IN ('user', 'assistant')", name="messages_role"),
        CheckConstraint("state IN ('placeholder', 'completed', 'failed', 'cancelled')", name="messages_state"),
    )
    op.create_index("messages_conversation", "messages", ["conversation_id", "id"])
    answers = "role = 'assistant' AND task_id IS NOT NULL"
    partial_index("messages_task", "messages", ["task_id"], answers, unique=True)
    own_rows("conversations", "messages")


def downgrade() -> None:
    """Remove them."""
    op.drop_table("messages")
    op.drop_table("conversations")
