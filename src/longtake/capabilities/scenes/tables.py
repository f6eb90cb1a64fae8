"""The tables of scenes for SQLAlchemy Core, created by migrations, and the kind of their jobs."""

from sqlalchemy import BigInteger, Column, ColumnElement, SmallInteger, Table, Text, literal_column

from longtake.db.dialects import Identifier, Instant, Json
from longtake.engine.tables import metadata

#: The kind of job that makes one image; its key is the image job's id, its subject the run's.
IMAGE = "scenes.image"

#: A user's request for several images. Its status follows from its scenes and is not stored.
scene_runs = Table(
    "scene_runs",
    metadata,
    Column("id", Identifier, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("title", Text),
    Column("model", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("parameters", Json, nullable=False),
    Column("request_id", Text),
    Column("created_at", Instant, nullable=False),
    Column("cancelled_at", Instant),
)

scenes = Table(
    "scenes",
    metadata,
    Column("run_id", Identifier, primary_key=True),
    Column("position", SmallInteger, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("prompt", Text, nullable=False),
)

#: Each request for an image of a scene. The newest is the scene's present one; earlier ones stay.
image_jobs = Table(
    "image_jobs",
    metadata,
    Column("id", Identifier, primary_key=True),
    Column("run_id", Identifier, nullable=False),
    Column("position", SmallInteger, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("prompt", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempt", SmallInteger, nullable=False),
    Column("max_attempts", SmallInteger, nullable=False),
    Column("price", BigInteger, nullable=False),
    Column("asset_id", Identifier),
    Column("error_code", Text),
    Column("error", Text),
    Column("retry_at", Instant),
    Column("queued_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("completed_at", Instant),
    Column("provider_ms", BigInteger),
    Column("storage_ms", BigInteger),
    Column("total_ms", BigInteger),
    Column("request_id", Text),
)

LIVE = ("queued", "processing")
#: Written as the partial indexes have it, because SQLite does not see that a list of parameters means the same.
IS_LIVE: ColumnElement[bool] = literal_column("image_jobs.status IN ('queued', 'processing')")
