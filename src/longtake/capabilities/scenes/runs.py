"""A run as a whole: checked, created, cancelled and deleted, each in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Text, cast, delete, exists, insert, select, update

from longtake.capabilities.scenes.endings import EndedImage, end_images, image_message
from longtake.capabilities.scenes.models import SceneModel, SceneModels
from longtake.capabilities.scenes.queries import Run, get_run, lock_run
from longtake.capabilities.scenes.tables import IMAGE, IS_LIVE, image_jobs, scene_runs, scenes
from longtake.clock import new_id
from longtake.db import Transaction
from longtake.db.dialects import NOW
from longtake.engine.control import cancel_of_subjects
from longtake.engine.engine import Engine
from longtake.engine.events import append_event
from longtake.engine.tables import jobs
from longtake.errors import InvalidPrompt, InvalidSceneCount, StateConflict
from longtake.plain_text import check_plain_text
from longtake.services.assets.store import remove_assets

COUNTS = (3, 5, 7, 10)
TITLE_LIMIT = 200


@dataclass(frozen=True, slots=True)
class NewRun:
    """A checked request for a run. It has its id already, so that a transaction that runs again changes nothing."""

    user_id: str
    title: str | None
    model: SceneModel
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
    checked = models.check_parameters(found.name, parameters)
    kept = [check_scene_prompt(models, found.name, number, one) for number, one in enumerate(prompts, start=1)]
    return NewRun(user_id, title, found, checked, kept, request_id, new_id())


def check_scene_prompt(models: SceneModels, model: str, number: int, prompt: str) -> str:
    """Return a scene's prompt as it is kept. The error names the scene's number."""
    try:
        return models.check_prompt(model, prompt)
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
    run = lock_run(tx, user_id, run_id)
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
    run = lock_run(tx, user_id, run_id)
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
