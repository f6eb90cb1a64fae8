"""The life of a run: created, cancelled, deleted; and of its images: completed, failed, cancelled, put back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Text, cast, delete, exists, insert, select, update

from longtake.capabilities.scenes.errors import InvalidSceneCount
from longtake.capabilities.scenes.models import SceneModels
from longtake.capabilities.scenes.tables import (
    IMAGE,
    IS_LIVE,
    LIVE,
    ImageJob,
    Run,
    get_run,
    image_jobs,
    job_from,
    lock_runs,
    scene_runs,
    scenes,
)
from longtake.clock import iso_timestamp, new_id
from longtake.db import Transaction
from longtake.db.dialects import NOW
from longtake.engine.control import cancel_of_subjects
from longtake.engine.engine import Engine
from longtake.engine.events import append_event, append_events
from longtake.engine.tables import jobs
from longtake.errors import StateConflict
from longtake.services.assets import NewAsset, register_assets
from longtake.services.assets.store import remove_assets
from longtake.services.credits import end_holds
from longtake.services.models import Model, check_parameters, check_prompt
from longtake.services.models.errors import InvalidPrompt
from longtake.services.provider_calls import trouble_words
from longtake.validation import check_plain_text

COUNTS = (3, 5, 7, 10)
TITLE_LIMIT = 200


@dataclass(frozen=True, slots=True)
class NewRun:
    """A checked request for a run. It has its id already, so that a transaction that runs again changes nothing."""

    user_id: str
    title: str | None
    model: Model
    parameters: dict[str, Any]
    prompts: Sequence[str]
    request_id: str | None
    id: str


def check_run(
    models: SceneModels,
    user_id: str,
    *,
    title: str | None,
    model: str | None,
    parameters: Mapping[str, Any],
    prompts: Sequence[str],
    request_id: str | None,
) -> NewRun:
    """Return the checked run. An error about a prompt names its scene's number."""
    if len(prompts) not in COUNTS:
        wanted = f"{', '.join(str(one) for one in COUNTS[:-1])} or {COUNTS[-1]}"
        raise InvalidSceneCount(f"A run must have {wanted} scenes, not {len(prompts)}.", counts=list(COUNTS))
    if title is not None:
        title = check_plain_text("title", title.strip(), most=TITLE_LIMIT) or None
    found = models.find(model)
    checked = check_parameters(found, parameters)
    kept = [check_scene_prompt(found, number, one) for number, one in enumerate(prompts, start=1)]
    return NewRun(user_id, title, found, checked, kept, request_id, new_id())


def check_scene_prompt(model: Model, number: int, prompt: str) -> str:
    """Return a scene's prompt as it is kept. The error names the scene's number."""
    try:
        return check_prompt(model, prompt)
    except InvalidPrompt as error:
        raise InvalidPrompt(f"Scene {number}: {error.message}", error.hint, **error.facts, scene=number) from None


def create_run(tx: Transaction, new: NewRun) -> None:
    """Write the run and its scenes. Nothing is queued, and no credits are held."""
    tx.execute(
        insert(scene_runs).values(
            id=new.id,
            user_id=new.user_id,
            title=new.title,
            model=new.model.name,
            provider=new.model.provider,
            parameters=new.parameters,
            request_id=new.request_id,
            created_at=NOW,
        )
    )
    rows = [
        {"run_id": new.id, "position": number, "user_id": new.user_id, "prompt": prompt}
        for number, prompt in enumerate(new.prompts, start=1)
    ]
    tx.execute(insert(scenes), rows)
    data = {"status": "created", "model": new.model.name, "title": new.title, "scenes": len(rows)}
    append_event(tx, "run.created", subject=new.id, user_id=new.user_id, data=data)


def cancel_run(tx: Transaction, user_id: str, run_id: str) -> Run:
    """Cancel the run and its live image jobs; finished images stay.

    Images that were queued while this transaction waited for the run are still live in what is returned: then call it
    again, in another transaction. No more can be queued.
    """
    get_run(tx, user_id, run_id)
    # Engine jobs before the run, as in the order of all locks.
    cancel_of_subjects(tx, [run_id], [IMAGE], "its run was cancelled")
    run = get_run(tx, user_id, run_id, lock=True)
    _end_without_job(tx, run_id)
    if run.cancelled_at is None:
        tx.execute(update(scene_runs).where(scene_runs.c.id == run_id).values(cancelled_at=NOW))
        append_event(tx, "run.cancelled", subject=run_id, user_id=user_id, data={"status": "cancelled"})
    return get_run(tx, user_id, run_id)


def _end_without_job(tx: Transaction, run_id: str) -> None:
    job = exists().where(jobs.c.kind == IMAGE, jobs.c.key == cast(image_jobs.c.id, Text))
    live = select(image_jobs.c.id).where(image_jobs.c.run_id == run_id, IS_LIVE, ~job)
    reason = EndedImage("cancelled", "CANCELLED", image_message("CANCELLED"))
    end_images(tx, ended=dict.fromkeys(tx.execute(live).scalars(), reason), tell_runs=False)


def delete_run(tx: Transaction, engine: Engine, user_id: str, run_id: str) -> None:
    """Delete a run without live image jobs, with its scenes and all its images. A job removes the files."""
    run = get_run(tx, user_id, run_id, lock=True)
    if run.live:
        message = f"The run {run_id} is generating, and can be deleted only when that has ended."
        raise StateConflict(message, hint="Cancel it first.", run_status=run.status)
    images = [job.asset_id for scene in run.scenes for job in scene.jobs if job.asset_id is not None]
    remove_assets(tx, engine, images)
    for table in (image_jobs, scenes):
        tx.execute(delete(table).where(table.c.run_id == run_id))
    tx.execute(delete(scene_runs).where(scene_runs.c.id == run_id))
    append_event(tx, "run.deleted", subject=run_id, user_id=user_id, data={"title": run.title})


def remove_runs_of(tx: Transaction, engine: Engine, user_id: str, before: datetime) -> bool:
    """Cancel and delete one of the runs a deleted account had at that moment; say whether there may be more."""
    mine = (scene_runs.c.user_id == user_id, scene_runs.c.created_at <= before)
    run_id = tx.execute(select(scene_runs.c.id).where(*mine).order_by(scene_runs.c.id).limit(1)).scalar()
    if run_id is not None and not cancel_run(tx, user_id, run_id).live:
        delete_run(tx, engine, user_id, run_id)
    return run_id is not None


ERROR_LIMIT = 500
#: The code for a lane that an operator paused, for any reason.
LANE_PAUSED = "LANE_PAUSED"
#: What users read about an image that was not made: never an address of a provider, a host or a path.
MESSAGES = {
    "CANCELLED": "It was cancelled.",
    LANE_PAUSED: "An operator has paused it.",
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


def end_images(
    tx: Transaction,
    *,
    made: Mapping[str, FinishedImage] | None = None,
    ended: Mapping[str, EndedImage] | None = None,
    tell_runs: bool = True,
) -> list[ImageJob]:
    """Complete, fail or cancel image jobs, with credits and events; return those that were live."""
    made, values, over = made or {}, dict[str, dict[str, Any]](), list[ImageJob]()
    for image_id, lost in (ended or {}).items():
        values[image_id] = {"status": lost.status, "error_code": lost.code, "error": lost.message[:ERROR_LIMIT]}
    for image_id, done in made.items():
        values[image_id] = {"status": "completed", "asset_id": done.asset.id, **done.times}
        values[image_id] |= {"error_code": None, "error": None}
    for image_id in sorted(values):
        over += _change(tx, image_id, values[image_id] | {"retry_at": None, "completed_at": NOW})
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
            change |= {"error_code": one.code, "error": image_message(one.code), "retry_at": retry_at.get(image_id)}
        for job in _change(tx, image_id, change):
            if one.code is not None:
                again = {"max_attempts": job.max_attempts, "retry_at": iso_timestamp(job.retry_at)}
                events.append(("scene.retrying", job.run_id, job.user_id, _about(job, "queued") | again))
    append_events(tx, events)


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
    return MESSAGES.get(code) or (trouble_words(code) if code.startswith("PROVIDER_") else OTHER_MESSAGE)
