"""The tables of scenes; how runs are read with their scenes, for users always their own; the figures of all images."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Float,
    MetaData,
    Row,
    SmallInteger,
    Table,
    Text,
    literal_column,
    select,
)

from longtake.db import Transaction
from longtake.db.dialects import Identifier, Instant, Json
from longtake.errors import NotFound

#: The kind of job that makes one image; its key is the image job's id, its subject the run's.
IMAGE = "scenes.image"

#: Migrations create these tables and views; here they are only declared.
metadata = MetaData()

#: A user's request for several images. Its status follows from its scenes and is not stored.
scene_runs = Table(
    "scene_runs",
    metadata,
    Column("id", Identifier, primary_key=True),
    *(Column(name, Text) for name in ("user_id", "title", "model", "provider", "request_id")),
    Column("parameters", Json),
    *(Column(name, Instant) for name in ("created_at", "cancelled_at")),
)

scenes = Table(
    "scenes",
    metadata,
    Column("run_id", Identifier, primary_key=True),
    Column("position", SmallInteger, primary_key=True),
    *(Column(name, Text) for name in ("user_id", "prompt")),
)

#: Each request for an image of a scene. The newest is the scene's present one; earlier ones stay.
image_jobs = Table(
    "image_jobs",
    metadata,
    Column("id", Identifier, primary_key=True),
    *(Column(name, Identifier) for name in ("run_id", "asset_id")),
    *(Column(name, SmallInteger) for name in ("position", "attempt", "max_attempts")),
    *(Column(name, Text) for name in ("user_id", "prompt", "status", "error_code", "error", "request_id")),
    *(Column(name, BigInteger) for name in ("price", "provider_ms", "storage_ms", "total_ms")),
    *(Column(name, Instant) for name in ("retry_at", "queued_at", "started_at", "completed_at")),
)

LIVE = ("queued", "processing")
#: Written as the partial indexes have it, because SQLite does not see that a list of parameters means the same.
IS_LIVE: ColumnElement[bool] = literal_column("image_jobs.status IN ('queued', 'processing')")


@dataclass(frozen=True, slots=True)
class ImageJob:
    """One row of image_jobs."""

    id: str
    run_id: str
    position: int
    user_id: str
    status: str
    attempt: int
    max_attempts: int
    price: int
    asset_id: str | None
    error_code: str | None
    error: str | None
    retry_at: datetime | None
    queued_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    request_id: str | None

    @property
    def live(self) -> bool:
        return self.status in LIVE


@dataclass(frozen=True, slots=True)
class Scene:
    """A scene with all its image jobs, oldest first."""

    number: int
    prompt: str
    jobs: Sequence[ImageJob]

    @property
    def job(self) -> ImageJob | None:
        return self.jobs[-1] if self.jobs else None

    @property
    def image(self) -> ImageJob | None:
        """The newest image job with an image, which is shown until the next is finished."""
        return next((job for job in reversed(self.jobs) if job.status == "completed"), None)

    def state(self, waiting: Collection[str] = ()) -> str:
        """Return how far it is; ``waiting`` are image jobs that no worker runs, even if their rows say `processing`."""
        if self.job is None:
            return "waiting"
        return "queued" if self.job.status == "processing" and self.job.id in waiting else self.job.status


@dataclass(frozen=True, slots=True)
class Run:
    """One row of scene_runs, with its scenes in their order."""

    id: str
    user_id: str
    title: str | None
    model: str
    provider: str
    parameters: dict[str, Any]
    request_id: str | None
    created_at: datetime
    cancelled_at: datetime | None
    scenes: Sequence[Scene]

    @property
    def live(self) -> list[ImageJob]:
        """The scenes' image jobs that have not ended yet."""
        return [scene.job for scene in self.scenes if scene.job is not None and scene.job.live]

    @property
    def status(self) -> str:
        """The status, derived from the scenes, so that it cannot disagree with them."""
        images = sum(scene.image is not None for scene in self.scenes)
        if self.cancelled_at is not None:
            return "cancelled"
        if all(scene.job is None for scene in self.scenes):
            return "created"
        if self.live:
            return "generating"
        if images == len(self.scenes):
            return "completed"
        return "partial" if images else "failed"


_JOB_NAMES = [one.name for one in fields(ImageJob)]
_RUN_NAMES = [one.name for one in fields(Run) if one.name != "scenes"]


def job_from(row: Row[Any]) -> ImageJob:
    """Read an image job from a row that has all its columns."""
    return ImageJob(**{name: getattr(row, name) for name in _JOB_NAMES})


def get_run(tx: Transaction, user_id: str, run_id: str, *, lock: bool = False) -> Run:
    """Return the user's run. Raises the same NotFound for one that never existed, was deleted, or is another user's.

    With ``lock``, no other transaction queues, ends or deletes its images until the commit.
    """
    wanted = select(scene_runs).where(scene_runs.c.id == run_id, scene_runs.c.user_id == user_id)
    rows = tx.execute(wanted.with_for_update() if lock else wanted).all()
    if not rows:
        raise NotFound(f"There is no run {run_id}.", hint="GET /v1/runs lists your runs.")
    return _with_scenes(tx, rows)[0]


def lock_runs(tx: Transaction, run_ids: Collection[str]) -> list[Run]:
    """Return these runs, locked in order of id so that transactions do not deadlock."""
    wanted = select(scene_runs).where(scene_runs.c.id.in_(sorted(run_ids))).order_by(scene_runs.c.id)
    return _with_scenes(tx, tx.execute(wanted.with_for_update()).all())


def list_runs(tx: Transaction, user_id: str, before: str | None, limit: int) -> list[Run]:
    """Return a page of the user's runs, newest first; ids begin with the time, so they are the order."""
    mine = select(scene_runs).where(scene_runs.c.user_id == user_id)
    if before is not None:
        mine = mine.where(scene_runs.c.id < before)
    return _with_scenes(tx, tx.execute(mine.order_by(scene_runs.c.id.desc()).limit(limit)).all())


def _with_scenes(tx: Transaction, rows: Sequence[Row[Any]]) -> list[Run]:
    """Return the runs of these rows with their scenes and image jobs, in two statements for any number of runs."""
    run_ids = [row.id for row in rows]
    jobs: dict[tuple[str, int], list[ImageJob]] = defaultdict(list)
    for row in tx.execute(select(image_jobs).where(image_jobs.c.run_id.in_(run_ids)).order_by(image_jobs.c.id)):
        jobs[row.run_id, row.position].append(job_from(row))
    found: dict[str, list[Scene]] = defaultdict(list)
    for row in tx.execute(select(scenes).where(scenes.c.run_id.in_(run_ids)).order_by(scenes.c.position)):
        found[row.run_id].append(Scene(row.position, row.prompt, jobs[row.run_id, row.position]))
    return [Run(**{name: getattr(row, name) for name in _RUN_NAMES}, scenes=found[row.id]) for row in rows]


# -- figures ---------------------------------------------------------------------------------------------------------

image_job_queue = Table(
    "image_job_queue",
    metadata,
    Column("status", Text),
    Column("jobs", BigInteger),
)
image_job_figures = Table(
    "image_job_figures",
    metadata,
    *(Column(name, BigInteger) for name in ("completed", "failed", "cancelled")),
    *(Column(name, Float) for name in ("failure_rate", "mean_seconds")),
    *(Column(name, Float) for name in ("mean_provider_ms", "mean_storage_ms", "mean_total_ms")),
)


def scene_figures(tx: Transaction) -> dict[str, Any]:
    """Return the queue by status, and of the last 24 hours how long images took, where, and how many failed."""
    counts = {row.status: row.jobs for row in tx.execute(select(image_job_queue))}
    row = tx.execute(select(image_job_figures)).mappings().one()
    digits = {"failure_rate": 4, "mean_seconds": 2, "mean_provider_ms": 0, "mean_storage_ms": 0, "mean_total_ms": 0}
    means = {name: None if row[name] is None else round(float(row[name]), most) for name, most in digits.items()}
    return {
        "queue": {name: counts.get(name, 0) for name in (*LIVE, "completed", "failed", "cancelled")},
        "last_24_hours": {**{name: row[name] for name in ("completed", "failed", "cancelled")}, **means},
    }
