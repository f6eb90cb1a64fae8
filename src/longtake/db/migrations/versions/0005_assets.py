"""Assets: media files we keep, and where their copy stands."""

from alembic import op
from sqlalchemy import BigInteger, CheckConstraint, Column, Double, Integer, SmallInteger, Text

from longtake.db.dialects import Identifier, Instant
from longtake.db.schema import now_default, own_rows, partial_index, uuid_default

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "assets",
        Column("id", Identifier, primary_key=True, server_default=uuid_default()),
        Column("user_id", Text, nullable=False),
        Column("task_id", Identifier),
        Column("role", Text, nullable=False),
        Column("kind", Text, nullable=False),
        Column("position", SmallInteger, nullable=False, server_default="0"),
        Column("source_url", Text),
        Column("source_expires_at", Instant),
        Column("mirror_state", Text, nullable=False, server_default="pending"),
        Column("mirror_attempts", Integer, nullable=False, server_default="0"),
        Column("mirror_error", Text),
        Column("mirror_tried_at", Instant),
        Column("mirrored_at", Instant),
        Column("key", Text),
        Column("content_type", Text),
        Column("size", BigInteger),
        Column("checksum", Text),
        Column("width", Integer),
        Column("height", Integer),
        Column("duration_seconds", Double),
        Column("created_at", Instant, nullable=False, server_default=now_default()),
        CheckConstraint("role IN ('result', 'reference', 'import')", name="assets_role"),
        CheckConstraint("kind IN ('image', 'video')", name="assets_kind"),
        CheckConstraint(
            "mirror_state IN ('pending', 'downloading', 'uploading', 'completed', 'failed', 'expired')",
            name="assets_mirror_state",
        ),
        CheckConstraint("mirror_state <> 'completed' OR key IS NOT NULL", name="assets_key"),
        CheckConstraint("key IS NOT NULL OR source_url IS NOT NULL", name="assets_source"),
    )
    op.create_index("assets_user", "assets", ["user_id", "id"])
    partial_index("assets_result", "assets", ["task_id", "position"], "role = 'result'", unique=True)
    partial_index("assets_unmirrored", "assets", ["id"], "mirror_state NOT IN ('completed', 'expired')")
    own_rows("assets")


def downgrade() -> None:
    """Remove it."""
    op.drop_table("assets")
