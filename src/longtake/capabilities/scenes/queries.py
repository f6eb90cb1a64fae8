"""Reading runs with their scenes. For users always their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Row, select

from longtake.capabilities.scenes.tables import LIVE, image_jobs, scene_runs, scenes
from longtake.db import Transaction
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
        """Say whether its end is still to come."""
        return self.status in LIVE


@dataclass(frozen=True, slots=True)
class Scene:
    """A scene with every time its image was asked for, oldest first."""

    number: int
    prompt: str
    jobs: Sequence[ImageJob]

    @property
    def job(self) -> ImageJob | None:
        """The present one: the newest."""
        return self.jobs[-1] if self.jobs else None

    @property
    def image(self) -> ImageJob | None:
        """The newest that has an image; it is shown until the next is there."""
        return next((job for job in reversed(self.jobs) if job.status == "completed"), None)

    def state(self, waiting: Collection[str] = ()) -> str:
        """Return how far it is; ``waiting`` are image jobs that no worker has in hand, whatever their rows say."""
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
        """The image jobs whose end is still to come."""
        return [scene.job for scene in self.scenes if scene.job is not None and scene.job.live]

    @property
    def status(self) -> str:
        """How far it is: derived from its scenes, so it can never disagree with them."""
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
    """Return the user's run; another's does not exist for them."""
    mine = (scene_runs.c.id == run_id, scene_runs.c.user_id == user_id)
    return _one(tx, run_id, tx.execute(select(scene_runs).where(*mine)).all())


def lock_run(tx: Transaction, user_id: str, run_id: str) -> Run:
    """Return the user's run; nobody else queues, ends or deletes anything of it until the commit."""
    mine = (scene_runs.c.id == run_id, scene_runs.c.user_id == user_id)
    return _one(tx, run_id, tx.execute(select(scene_runs).where(*mine).with_for_update()).all())


def lock_runs(tx: Transaction, run_ids: Collection[str]) -> list[Run]:
    """Return these runs, locked in one order everywhere, so that nobody deadlocks."""
    wanted = select(scene_runs).where(scene_runs.c.id.in_(sorted(run_ids))).order_by(scene_runs.c.id)
    return with_scenes(tx, tx.execute(wanted.with_for_update()).all())


def list_runs(tx: Transaction, user_id: str, before: str | None, limit: int) -> list[Run]:
    """Return a page of the user's runs, newest first; ids begin with the time, so they are the order."""
    mine = select(scene_runs).where(scene_runs.c.user_id == user_id)
    if before is not None:
        mine = mine.where(scene_runs.c.id < before)
    return with_scenes(tx, tx.execute(mine.order_by(scene_runs.c.id.desc()).limit(limit)).all())


def with_scenes(tx: Transaction, rows: Sequence[Row[Any]]) -> list[Run]:
    """Return the runs of these rows with all that belongs to them, in two statements however many there are."""
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
    """Say the same of a run that does not exist, of one that was deleted and of somebody else's."""
    return NotFound(f"There is no run {run_id}.", hint="GET /v1/runs lists yours.")


def _one(tx: Transaction, run_id: str, rows: Sequence[Row[Any]]) -> Run:
    if not rows:
        raise no_run(run_id)
    return with_scenes(tx, rows)[0]
