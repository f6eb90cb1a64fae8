"""Assets: media files we keep, and where their copies and pictures stand."""

from alembic import op
from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, Double, Integer, SmallInteger, Text, false

from longtake.db.dialects import Identifier, Instant, Json
from longtake.db.schema import is_postgresql, now_default, own_rows, partial_index, uuid_default

PICTURE_STATES = "('none', 'pending', 'processing', 'completed', 'failed')"
SQLITE_ID = "-".join("[0-9a-f]" * digits for digits in (8, 4, 4, 4, 12))


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
        Column("mirror_state", Text, nullable=False, server_default="none"),
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
        # Whatever word an application uses; 'completed' is the one that starts something.
        Column("status", Text, nullable=False, server_default="completed"),
        Column("completed_at", Instant),
        Column("force", Boolean, nullable=False, server_default=false()),
        Column("request_id", Text),
        Column("title", Text),
        # Another file takes the place of the one before: pictures of the two never have the same key.
        Column("file_number", Integer, nullable=False, server_default="1"),
        Column("bytes_done", BigInteger),
        Column("thumbnail_state", Text, nullable=False, server_default="none"),
        Column("thumbnail_attempts", Integer, nullable=False, server_default="0"),
        Column("thumbnail_error", Text),
        Column("thumbnail_tried_at", Instant),
        Column("thumbnail_at", Instant),
        Column("thumbnail_key", Text),
        # One that an application brought itself; a `data:image/svg` stands for none.
        Column("thumbnail_url", Text),
        Column("thumbnail_metadata", Json),
        # A picture of under a hundred bytes, as an address that holds it.
        Column("placeholder", Text),
        Column("preview_state", Text, nullable=False, server_default="none"),
        Column("preview_error", Text),
        Column("preview_key", Text),
        *_checks(),
    )
    op.create_index("assets_user", "assets", ["user_id", "id"])
    op.create_index("assets_newest", "assets", ["user_id", "created_at", "id"])
    partial_index("assets_result", "assets", ["task_id", "position"], "role = 'result'", unique=True)
    partial_index("assets_unmirrored", "assets", ["id"], "mirror_state NOT IN ('completed', 'expired')")
    partial_index(
        "assets_unfinished",
        "assets",
        ["id"],
        "mirror_state IN ('pending', 'downloading', 'uploading', 'failed')"
        " OR thumbnail_state IN ('pending', 'processing', 'failed')",
    )
    # Whether an object belongs to a row is asked before it is removed.
    partial_index("assets_object", "assets", ["key"], "key IS NOT NULL")
    partial_index("assets_completed", "assets", ["completed_at"], "role <> 'reference'")
    # An address may be longer than an entry of PostgreSQL's usual index.
    by_hash = "USING hash " if is_postgresql() else ""
    op.execute(f"CREATE INDEX assets_import ON assets {by_hash}(source_url) WHERE role = 'import'")
    own_rows("assets")


def downgrade() -> None:
    """Remove it."""
    op.drop_table("assets")


def _checks() -> list[CheckConstraint]:
    checks = {
        "role": "role IN ('result', 'reference', 'import', 'scene')",
        "kind": "kind IN ('image', 'video')",
        "mirror_state": (
            "mirror_state IN ('none', 'pending', 'downloading', 'uploading', 'completed', 'failed', 'expired')"
        ),
        "key": "mirror_state <> 'completed' OR key IS NOT NULL",
        # An application writes its row before it has a file.
        "source": "status <> 'completed' OR key IS NOT NULL OR source_url IS NOT NULL",
        "pictures": f"thumbnail_state IN {PICTURE_STATES} AND preview_state IN {PICTURE_STATES}",
    }
    if not is_postgresql():
        # As the type of ids sees to it on PostgreSQL: keys of objects are made from them, and lead back to them.
        checks["id"] = f"id GLOB '{SQLITE_ID}'"
    return [CheckConstraint(condition, name=f"assets_{name}") for name, condition in checks.items()]
