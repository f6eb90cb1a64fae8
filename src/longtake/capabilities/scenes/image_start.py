"""The beginning of a try: the row says `processing`, and the provider is asked only after that is durable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select, update

from longtake.capabilities.scenes.tables import IS_LIVE, image_jobs, scene_runs
from longtake.db import Transaction
from longtake.db.dialects import NOW
from longtake.engine.events import append_event
from longtake.engine.jobs import Job
from longtake.engine.leases import fenced
from longtake.errors import LeaseLost


@dataclass(frozen=True, slots=True)
class Begun:
    """What the provider is to be asked, and for whom."""

    user_id: str
    number: int
    prompt: str
    model: str
    parameters: dict[str, Any]
    #: Why the try before did not succeed.
    error_code: str | None


def begin_image(tx: Transaction, job: Job, image_id: str, attempt: int) -> Begun | None:
    """Note that the try has begun; None when the image is no longer wanted. Only for whoever holds the job's lease."""
    if not fenced(tx, job):
        raise LeaseLost(f"The job {job.id} is no longer ours.")
    found = (
        select(
            image_jobs.c.user_id,
            image_jobs.c.run_id,
            image_jobs.c.position,
            image_jobs.c.prompt,
            image_jobs.c.max_attempts,
            image_jobs.c.error_code,
            scene_runs.c.model,
            scene_runs.c.parameters,
        )
        .join(scene_runs, scene_runs.c.id == image_jobs.c.run_id)
        .where(image_jobs.c.id == image_id, IS_LIVE)
    )
    row = tx.execute(found).first()
    if row is None:
        return None
    begun = Begun(row.user_id, row.position, row.prompt, row.model, row.parameters, row.error_code)
    if attempt <= row.max_attempts:
        change = {"status": "processing", "attempt": attempt, "started_at": NOW, "retry_at": None}
        tx.execute(update(image_jobs).where(image_jobs.c.id == image_id).values(**change))
        data = {"scene": row.position, "state": "processing", "attempt": attempt, "max_attempts": row.max_attempts}
        append_event(tx, "scene.processing", subject=row.run_id, user_id=row.user_id, data=data)
    return begun
