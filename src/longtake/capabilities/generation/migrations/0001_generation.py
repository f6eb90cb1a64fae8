"""Generation: tasks, and what providers were asked and answered."""

from alembic import op
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    Integer,
    Text,
    false,
)

from longtake.db.dialects import Identifier, Instant, Json
from longtake.db.schema import (
    append_only,
    engine_only,
    is_postgresql,
    now_default,
    own_rows,
    partial_index,
    uuid_default,
)


def upgrade() -> None:
    """Make the tables."""
    _tasks()
    _submissions()
    own_rows("tasks")
    engine_only("submissions")
    append_only("submissions")


def downgrade() -> None:
    """Remove them."""
    for table in ("submissions", "tasks"):
        op.drop_table(table)


def _tasks() -> None:
    op.create_table(
        "tasks",
        Column("id", Identifier, primary_key=True, server_default=uuid_default()),
        # What was asked for.
        Column("user_id", Text, nullable=False),
        Column("conversation_id", Identifier),
        Column("type", Text, nullable=False),
        Column("model", Text, nullable=False),
        Column("provider", Text, nullable=False),
        Column("prompt", Text, nullable=False),
        Column("parameters", Json, nullable=False),
        Column("references", Json, nullable=False, server_default="[]"),
        Column("price", BigInteger, nullable=False),
        Column("credits_held", BigInteger, nullable=False),
        Column("credits_refunded", BigInteger, nullable=False, server_default="0"),
        Column("placeholder_message_id", Identifier),
        Column("completed_message_id", Identifier),
        Column("retry_of", Identifier),
        Column("request_id", Text),
        # What the provider's callback brings back; makes it findable when its own id was lost.
        Column("reference", Text, nullable=False, unique=True),
        Column("created_at", Instant, nullable=False, server_default=now_default()),
        # How far it is.
        Column("status", Text, nullable=False, server_default="pending"),
        Column("needs_review", Boolean, nullable=False, server_default=false()),
        Column("provider_task_id", Text),
        Column("progress", Double),
        Column("trouble", Json),
        Column("fail_code", Text),
        Column("error", Text),
        Column("poll_count", Integer, nullable=False, server_default="0"),
        Column("last_polled_at", Instant),
        Column("started_at", Instant),
        Column("deadline_at", Instant, nullable=False),
        Column("ended_at", Instant),
        CheckConstraint("type IN ('image', 'video')", name="tasks_type"),
        CheckConstraint("status IN ('pending', 'running', 'completed', 'failed', 'cancelled')", name="tasks_status"),
        CheckConstraint("(status IN ('pending', 'running')) = (ended_at IS NULL)", name="tasks_ended"),
    )
    unfinished = "status IN ('pending', 'running')"
    op.create_index("tasks_user_status", "tasks", ["user_id", "status", "id"])
    op.create_index("tasks_user_type", "tasks", ["user_id", "type", "id"])
    op.create_index("tasks_user_model", "tasks", ["user_id", "model", "id"])
    partial_index("tasks_conversation", "tasks", ["conversation_id", "id"], "conversation_id IS NOT NULL")
    partial_index("tasks_unfinished", "tasks", ["user_id", "id"], unfinished)
    partial_index("tasks_deadline", "tasks", ["deadline_at"], unfinished)
    partial_index("tasks_running", "tasks", ["provider"], "status = 'running'")
    partial_index("tasks_review", "tasks", ["id"], "needs_review")
    partial_index("tasks_durations", "tasks", ["model", "ended_at"], "status = 'completed'")
    # All that the figures need stands in the index, so that they read no rows. When a running task was last asked
    # about is in none: every poll would have to write there.
    columns = ["ended_at", "type", "status", "started_at", "created_at"]
    partial_index("tasks_ended", "tasks", columns, "ended_at IS NOT NULL")
    # One remote task belongs to one of ours.
    partial_index(
        "tasks_provider_task",
        "tasks",
        ["provider", "provider_task_id"],
        "provider_task_id IS NOT NULL",
        unique=True,
    )


def _submissions() -> None:
    number = BigInteger() if is_postgresql() else Integer()
    op.create_table(
        "submissions",
        Column("number", number, primary_key=True, autoincrement=True),
        Column("task_id", Identifier, nullable=False),
        Column("provider", Text, nullable=False),
        # intended: about to ask; accepted, refused: what was answered; unknown: no answer; reported: by a callback.
        Column("fact", Text, nullable=False),
        Column("provider_task_id", Text),
        Column("detail", Text),
        Column("at", Instant, nullable=False, server_default=now_default()),
        CheckConstraint("fact IN ('intended', 'accepted', 'refused', 'unknown', 'reported')", name="submissions_fact"),
        sqlite_autoincrement=True,
    )
    op.create_index("submissions_task", "submissions", ["task_id"])
    partial_index(
        "submissions_accepted",
        "submissions",
        ["provider", "provider_task_id"],
        "fact = 'accepted'",
        unique=True,
    )
