"""Scenes: runs of a few images each, the jobs that make them, and views of how those fare."""

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
from longtake.db.schema import create_views, day_ago, is_postgresql, now_default, own_rows, partial_index, uuid_default

LIVE = "status IN ('queued', 'processing')"


def upgrade() -> None:
    """Make tables and views."""
    _runs()
    _image_jobs()
    own_rows("scene_runs", "scenes", "image_jobs")
    create_views(image_job_queue=_queue(), image_job_figures=_figures())


def downgrade() -> None:
    """Remove them, and the rows of their images; the images themselves are swept as orphans."""
    for view in ("image_job_figures", "image_job_queue"):
        op.execute(f"DROP VIEW {view}")
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


def _queue() -> str:
    """Return the view with a row for each status."""
    # A worker that died or was stopped leaves `processing` behind; its job waits for the next one.
    key = "image_jobs.id::text" if is_postgresql() else "image_jobs.id"
    waits = f"(SELECT 1 FROM jobs WHERE jobs.kind = 'scenes.image' AND jobs.key = {key} AND jobs.state = 'ready')"
    status = f"CASE WHEN status = 'processing' AND EXISTS {waits} THEN 'queued' ELSE status END"
    return f"""
SELECT status, count(*) AS jobs, min(queued_at) AS oldest_queued_at
FROM (SELECT {status} AS status, queued_at FROM image_jobs) AS now_so GROUP BY status"""


def _figures() -> str:
    """Return the view with one row about the last 24 hours."""
    seconds = "(julianday(completed_at) - julianday(started_at)) * 86400.0"
    if is_postgresql():
        seconds = "extract(epoch FROM completed_at - started_at)::double precision"

    def mean(what: str) -> str:
        return f"avg({what}) FILTER (WHERE status = 'completed')"

    return f"""
SELECT count(*) FILTER (WHERE status = 'completed') AS completed, count(*) FILTER (WHERE status = 'failed') AS failed,
    count(*) FILTER (WHERE status = 'cancelled') AS cancelled,
    1.0 * count(*) FILTER (WHERE status = 'failed')
        / nullif(count(*) FILTER (WHERE status IN ('completed', 'failed')), 0) AS failure_rate,
    {mean(seconds)} AS mean_seconds, {mean("provider_ms")} AS mean_provider_ms,
    {mean("storage_ms")} AS mean_storage_ms, {mean("total_ms")} AS mean_total_ms
FROM image_jobs WHERE completed_at > {day_ago()}"""
