"""How image jobs end or go back to the queue: status, image, credits and events in the caller's transaction.

Every change requires a live image job: of two concurrent changes the first wins, and the second changes nothing.
Locks are taken in one order: image jobs, runs, holds, balances, each sorted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select, update

from longtake.capabilities.scenes.queries import ImageJob, Run, job_from, lock_runs
from longtake.capabilities.scenes.tables import IMAGE, LIVE, image_jobs
from longtake.clock import iso_timestamp
from longtake.db import Transaction
from longtake.db.dialects import NOW
from longtake.engine.events import append_events
from longtake.engine.tables import jobs
from longtake.services.assets import NewAsset, register_assets
from longtake.services.credits import end_holds
from longtake.services.provider_calls.trouble import trouble_words

ERROR_LIMIT = 500
#: What users read about an image that was not made: never an address of a provider, a host or a path.
MESSAGES = {
    "CANCELLED": "It was cancelled.",
    "CRASHED": "The process that made it stopped before it was done.",
    "MODEL_GONE": "The model is no longer offered.",
    "NO_RESULT": "The provider answered without an image.",
    "PROVIDER_GONE": "The provider is no longer used.",
    "PROVIDER_TIMEOUT": "The provider did not answer in time.",
    "PROVIDER_UNAVAILABLE": "The provider could not make it.",
    "STORAGE_UNAVAILABLE": "The image could not be stored.",
    "SUBMIT_UNKNOWN": "The provider's answer was lost.",
    "TIME_LIMIT": "It took too long.",
}
OTHER_MESSAGE = "Something went wrong on our side."
#: The code for a lane that an operator paused, whatever reason they gave.
LANE_PAUSED = "LANE_PAUSED"


@dataclass(frozen=True, slots=True)
class FinishedImage:
    """A stored image, and how long its steps took."""

    asset: NewAsset
    times: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EndedImage:
    """An image job that ended without an image: `failed` or `cancelled`, and why."""

    status: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class ReturnedImage:
    """An image job that goes back to the queue, with its tries so far; without a code nothing went wrong."""

    attempt: int
    code: str | None
    message: str | None


def end_images(
    tx: Transaction,
    *,
    made: Mapping[str, FinishedImage] | None = None,
    ended: Mapping[str, EndedImage] | None = None,
    tell_runs: bool = True,
) -> list[ImageJob]:
    """Complete, fail or cancel image jobs, with credits and events; return those that were live."""
    made, values = made or {}, {image_id: _without_image(one) for image_id, one in (ended or {}).items()}
    values |= {image_id: _with_image(one) for image_id, one in made.items()}
    over = [
        job for image_id in sorted(values) for job in _change(tx, image_id, values[image_id] | {"completed_at": NOW})
    ]
    if not over:
        return []
    runs = lock_runs(tx, {job.run_id for job in over}) if tell_runs else []
    for job in over:
        if job.id in made:
            register_assets(tx, [made[job.id].asset], job.request_id)
    _tell(tx, over, runs)
    end_holds(
        tx,
        capture=[job.id for job in over if job.status == "completed"],
        release={job.id: job.error_code or job.status for job in over if job.status != "completed"},
    )
    return over


def return_images(tx: Transaction, returned: Mapping[str, ReturnedImage]) -> None:
    """Put image jobs back for their next try, whose time is taken from their engine jobs."""
    if not returned:
        return
    due = select(jobs.c.key, jobs.c.due_at).where(jobs.c.kind == IMAGE, jobs.c.key.in_(sorted(returned)))
    retry_at = {str(row.key): row.due_at for row in tx.execute(due)}
    events = []
    for image_id in sorted(returned):
        one = returned[image_id]
        change: dict[str, Any] = {"status": "queued", "attempt": one.attempt}
        if one.code is not None:
            change |= {"error_code": one.code, "error": one.message, "retry_at": retry_at.get(image_id)}
        for job in _change(tx, image_id, change):
            if one.code is not None:
                again = {"max_attempts": job.max_attempts, "retry_at": iso_timestamp(job.retry_at)}
                events.append(("scene.retrying", job.run_id, job.user_id, _about(job, "queued") | again))
    append_events(tx, events)


def _with_image(one: FinishedImage) -> dict[str, Any]:
    found = {"status": "completed", "asset_id": one.asset.id, **one.times}
    return found | {"error_code": None, "error": None, "retry_at": None}


def _without_image(one: EndedImage) -> dict[str, Any]:
    return {"status": one.status, "error_code": one.code, "error": one.message[:ERROR_LIMIT], "retry_at": None}


def _change(tx: Transaction, image_id: str, values: Mapping[str, Any]) -> list[ImageJob]:
    live = (image_jobs.c.id == image_id, image_jobs.c.status.in_(LIVE))
    return [job_from(row) for row in tx.execute(update(image_jobs).where(*live).values(**values).returning(image_jobs))]


def _tell(tx: Transaction, over: Sequence[ImageJob], runs: Sequence[Run]) -> None:
    """Append an event for each image, and for each run that is finished. Locked runs finish once."""
    events = [
        (f"scene.{job.status}", job.run_id, job.user_id, _about(job, job.status))
        for job in over
        if job.status != "cancelled"
    ]
    append_events(tx, events)
    finished = [run for run in runs if not run.live and run.cancelled_at is None]
    append_events(
        tx, [("run.finished", run.id, run.user_id, {"status": run.status, **_counts(run)}) for run in finished]
    )


def _about(job: ImageJob, state: str) -> dict[str, Any]:
    data: dict[str, Any] = {"scene": job.position, "state": state, "attempt": job.attempt}
    if job.asset_id is not None:
        data["asset_id"] = job.asset_id
    if job.error_code is not None:
        data["reason"] = {"code": job.error_code, "message": job.error}
    return data


def _counts(run: Run) -> dict[str, int]:
    states = [scene.state() for scene in run.scenes]
    return {"scenes": len(states), **{name: states.count(name) for name in ("completed", "failed", "cancelled")}}


def image_message(code: str) -> str:
    """Return the sentence for an error code."""
    if code == LANE_PAUSED:
        return "An operator has paused it."
    return MESSAGES.get(code) or (trouble_words(code) if code.startswith("PROVIDER_") else OTHER_MESSAGE)
