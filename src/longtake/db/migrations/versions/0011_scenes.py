"""Scenes: runs of a few images each, the jobs that make them, and views of how those fare."""

from typing import Any

from alembic import op
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    PrimaryKeyConstraint,
    SmallInteger,
    Text,
)

from longtake.db.dialects import Identifier, Instant, Json
from longtake.db.scene_views import SCENE_VIEWS_DROPS, SQLITE_SCENE_VIEWS, postgresql_scene_views
from longtake.db.schema import is_postgresql, now_default, own_rows, partial_index, uuid_default

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

LIVE = "status IN ('queued', 'processing')"


def upgrade() -> None:
    """Make tables and views."""
    _runs()
    _image_jobs()
    own_rows("scene_runs", "scenes", "image_jobs")
    for statement in postgresql_scene_views(_version()) if is_postgresql() else SQLITE_SCENE_VIEWS:
        op.execute(statement)


def downgrade() -> None:
    """Remove them, and the rows of their images; the images themselves are swept as orphans."""
    for statement in SCENE_VIEWS_DROPS:
        op.execute(statement)
    op.execute("DELETE FROM assets WHERE role = 'scene'")
    for table in ("image_jobs", "scenes", "scene_runs"):
        op.drop_table(table)


def _runs() -> None:
    op.create_table(
        "scene_runs",
        Column("id", Identifier, primary_key=True, server_default=uuid_default()),
        Column("user_id", Text, nullable=False),
        Column("title", Text),
        Column("model", Text, nullable=False),
        Column("provider", Text, nullable=False),
        Column("parameters", Json, nullable=False, server_default="{}"),
        Column("request_id", Text),
        Column("created_at", Instant, nullable=False, server_default=now_default()),
        Column("cancelled_at", Instant),
    )
    op.create_index("scene_runs_user", "scene_runs", ["user_id", "id"])
    op.create_table(
        "scenes",
        Column("run_id", Identifier, ForeignKey("scene_runs.id", ondelete="CASCADE"), nullable=False),
        Column("position", SmallInteger, nullable=False),
        Column("user_id", Text, nullable=False),
        Column("prompt", Text, nullable=False),
        PrimaryKeyConstraint("run_id", "position"),
        CheckConstraint("position >= 1", name="scenes_position"),
    )


def _image_jobs() -> None:
    op.create_table(
        "image_jobs",
        *_job_columns(),
        ForeignKeyConstraint(["run_id", "position"], ["scenes.run_id", "scenes.position"], ondelete="CASCADE"),
        CheckConstraint(
            "status IN ('queued', 'processing', 'completed', 'failed', 'cancelled')", name="image_jobs_status"
        ),
        CheckConstraint(f"({LIVE}) = (completed_at IS NULL)", name="image_jobs_ended"),
        CheckConstraint("status <> 'completed' OR asset_id IS NOT NULL", name="image_jobs_asset"),
    )
    # One live job for each scene, however many ask at once.
    partial_index("image_jobs_live", "image_jobs", ["run_id", "position"], LIVE, unique=True)
    partial_index("image_jobs_of_user", "image_jobs", ["user_id"], LIVE)
    op.create_index("image_jobs_scene", "image_jobs", ["run_id", "position", "id"])
    op.create_index("image_jobs_queue", "image_jobs", ["status", "queued_at"])
    partial_index("image_jobs_done", "image_jobs", ["completed_at"], "completed_at IS NOT NULL")


def _job_columns() -> list[Column[Any]]:
    return [
        Column("id", Identifier, primary_key=True, server_default=uuid_default()),
        Column("run_id", Identifier, nullable=False),
        Column("position", SmallInteger, nullable=False),
        Column("user_id", Text, nullable=False),
        # What it was queued with: the scene may be given other words later.
        Column("prompt", Text, nullable=False),
        Column("status", Text, nullable=False, server_default="queued"),
        Column("attempt", SmallInteger, nullable=False, server_default="0"),
        Column("max_attempts", SmallInteger, nullable=False, server_default="3"),
        Column("price", BigInteger, nullable=False),
        Column("asset_id", Identifier),
        # Why it failed, or why the try before did not succeed, in words for its user.
        Column("error_code", Text),
        Column("error", Text),
        Column("retry_at", Instant),
        Column("queued_at", Instant, nullable=False, server_default=now_default()),
        Column("started_at", Instant),
        # Its end, whichever way.
        Column("completed_at", Instant),
        Column("provider_ms", BigInteger),
        Column("storage_ms", BigInteger),
        Column("total_ms", BigInteger),
        Column("request_id", Text),
    ]


def _version() -> int:
    found = op.get_bind().dialect.server_version_info
    return int(found[0]) if found else 0
