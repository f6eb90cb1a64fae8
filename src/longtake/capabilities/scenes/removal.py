"""Deleting runs: rows and images in one transaction, files after it, by a job. The ledger stays."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, select

from longtake.capabilities.scenes.cancellation import cancel_run
from longtake.capabilities.scenes.queries import lock_run
from longtake.capabilities.scenes.tables import image_jobs, scene_runs, scenes
from longtake.db import Transaction
from longtake.engine.engine import Engine
from longtake.engine.events import append_event
from longtake.errors import StateConflict
from longtake.services.assets.store import remove_assets

#: Runs of a user who leaves that go in one transaction.
PAGE = 20


def delete_run(tx: Transaction, engine: Engine, user_id: str, run_id: str) -> None:
    """Delete a run of which nothing is under way, with its scenes and all its images."""
    run = lock_run(tx, user_id, run_id)
    if run.live:
        message = f"The run {run_id} is generating: it can be deleted when nothing of it is under way."
        raise StateConflict(message, hint="Cancel it first.", run_status=run.status)
    images = [job.asset_id for scene in run.scenes for job in scene.jobs if job.asset_id is not None]
    remove_assets(tx, engine, images)
    for table in (image_jobs, scenes):
        tx.execute(delete(table).where(table.c.run_id == run_id))
    tx.execute(delete(scene_runs).where(scene_runs.c.id == run_id))
    append_event(tx, "run.deleted", subject=run_id, user_id=user_id, data={"title": run.title})


def remove_runs_of(tx: Transaction, engine: Engine, user_id: str, before: datetime) -> bool:
    """Cancel and delete a page of the runs that a user who left had at that moment; say whether there may be more."""
    mine = (scene_runs.c.user_id == user_id, scene_runs.c.created_at <= before)
    found = tx.execute(select(scene_runs.c.id).where(*mine).order_by(scene_runs.c.id).limit(PAGE)).scalars().all()
    for run_id in found:
        cancel_run(tx, user_id, run_id)
        delete_run(tx, engine, user_id, run_id)
    return len(found) == PAGE
