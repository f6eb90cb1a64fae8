"""Reads runs with their scenes, for users always their own, and the figures of all images."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Column, Float, MetaData, Row, Table, Text, select

from longtake.capabilities.scenes.tables import LIVE, image_jobs, scene_runs, scenes
from longtake.db import Transaction
from longtake.db.dialects import Instant
from longtake.errors import NotFound


@dataclass(frozen=True, slots=True)
class ImageJob:
    """One row of image_jobs."""

    id: str
    run_id: str
    position: int
    user_id: str
    prompt: str
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
        """Say whether it has not ended yet."""
        return self.status in LIVE


@dataclass(frozen=True, slots=True)
class Scene:
    """A scene with all its image jobs, oldest first."""

    number: int
    prompt: str
    jobs: Sequence[ImageJob]

    @property
    def job(self) -> ImageJob | None:
        """The newest image job."""
        return self.jobs[-1] if self.jobs else None

    @property
    def image(self) -> ImageJob | None:
        """The newest image job with an image, which is shown until the next is finished."""
        return next((job for job in reversed(self.jobs) if job.status == "completed"), None)

    def state(self, waiting: Collection[str] = ()) -> str:
        """Return how far it is; ``waiting`` are image jobs that no worker runs, whatever their rows say."""
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


def get_run(tx: Transaction, user_id: str, run_id: str) -> Run:
    """Return the user's run. Raises NotFound, for another user's run as well."""
    mine = (scene_runs.c.id == run_id, scene_runs.c.user_id == user_id)
    return _one(tx, run_id, tx.execute(select(scene_runs).where(*mine)).all())


def lock_run(tx: Transaction, user_id: str, run_id: str) -> Run:
    """Return the user's run, locked: until the commit no other transaction queues, ends or deletes its images."""
    mine = (scene_runs.c.id == run_id, scene_runs.c.user_id == user_id)
    return _one(tx, run_id, tx.execute(select(scene_runs).where(*mine).with_for_update()).all())


def lock_runs(tx: Transaction, run_ids: Collection[str]) -> list[Run]:
    """Return these runs, locked in order of id so that transactions do not deadlock."""
    wanted = select(scene_runs).where(scene_runs.c.id.in_(sorted(run_ids))).order_by(scene_runs.c.id)
    return with_scenes(tx, tx.execute(wanted.with_for_update()).all())


def list_runs(tx: Transaction, user_id: str, before: str | None, limit: int) -> list[Run]:
    """Return a page of the user's runs, newest first; ids begin with the time, so they are the order."""
    mine = select(scene_runs).where(scene_runs.c.user_id == user_id)
    if before is not None:
        mine = mine.where(scene_runs.c.id < before)
    return with_scenes(tx, tx.execute(mine.order_by(scene_runs.c.id.desc()).limit(limit)).all())


def with_scenes(tx: Transaction, rows: Sequence[Row[Any]]) -> list[Run]:
    """Return the runs of these rows with their scenes and image jobs, in two statements for any number of runs."""
    run_ids = [row.id for row in rows]
    jobs: dict[tuple[str, int], list[ImageJob]] = defaultdict(list)
    asked = select(image_jobs).where(image_jobs.c.run_id.in_(run_ids)).order_by(image_jobs.c.id)
    for row in tx.execute(asked):
        jobs[row.run_id, row.position].append(job_from(row))
    found: dict[str, list[Scene]] = defaultdict(list)
    for row in tx.execute(select(scenes).where(scenes.c.run_id.in_(run_ids)).order_by(scenes.c.position)):
        found[row.run_id].append(Scene(row.position, row.prompt, jobs[row.run_id, row.position]))
    return [Run(**{name: getattr(row, name) for name in _RUN_NAMES}, scenes=found[row.id]) for row in rows]


def no_run(run_id: str) -> NotFound:
    """Return the same error for a run that never existed, was deleted, or is another user's."""
    return NotFound(f"There is no run {run_id}.", hint="GET /v1/runs lists your runs.")


def _one(tx: Transaction, run_id: str, rows: Sequence[Row[Any]]) -> Run:
    if not rows:
        raise no_run(run_id)
    return with_scenes(tx, rows)[0]


# -- figures ---------------------------------------------------------------------------------------------------------

IMAGE_STATUSES = ("queued", "processing", "completed", "failed", "cancelled")

_views = MetaData()
image_job_queue = Table(
    "image_job_queue",
    _views,
    Column("status", Text),
    Column("jobs", BigInteger),
    Column("oldest_queued_at", Instant),
)
image_job_figures = Table(
    "image_job_figures",
    _views,
    *(Column(name, BigInteger) for name in ("completed", "failed", "cancelled")),
    *(Column(name, Float) for name in ("failure_rate", "mean_seconds")),
    *(Column(name, Float) for name in ("mean_provider_ms", "mean_storage_ms", "mean_total_ms")),
)


def scene_figures(tx: Transaction) -> dict[str, Any]:
    """Return the queue by status, and of the last 24 hours how long images took, where, and how many failed."""
    counts = {row.status: row.jobs for row in tx.execute(select(image_job_queue))}
    row = tx.execute(select(image_job_figures)).one()
    digits = {"failure_rate": 4, "mean_seconds": 2, "mean_provider_ms": 0, "mean_storage_ms": 0, "mean_total_ms": 0}
    means = {
        name: None if getattr(row, name) is None else round(float(getattr(row, name)), most)
        for name, most in digits.items()
    }
    return {
        "queue": {name: counts.get(name, 0) for name in IMAGE_STATUSES},
        "last_24_hours": {"completed": row.completed, "failed": row.failed, "cancelled": row.cancelled, **means},
    }
