"""Cancelling a run: what is under way ends, its credits come back, and nothing more is made for it."""

from __future__ import annotations

from sqlalchemy import select, update

from longtake.capabilities.scenes.endings import Ended, end_images
from longtake.capabilities.scenes.queries import Run, get_run, lock_run
from longtake.capabilities.scenes.tables import IMAGE, IS_LIVE, image_jobs, scene_runs
from longtake.capabilities.scenes.user_messages import image_words
from longtake.db import Transaction
from longtake.db.dialects import NOW
from longtake.engine.control import cancel_of_subject
from longtake.engine.events import append_event


def cancel_run(tx: Transaction, user_id: str, run_id: str) -> Run:
    """Cancel the run and what is live of it. Again changes nothing; images that are there stay."""
    get_run(tx, user_id, run_id)
    # The jobs first, then image jobs and run, as workers do it: nobody deadlocks.
    _cancel_live(tx, run_id)
    run = lock_run(tx, user_id, run_id)
    if run.live:
        # Queued while we waited for the run; nobody can queue more now.
        _cancel_live(tx, run_id)
    if run.cancelled_at is None:
        tx.execute(update(scene_runs).where(scene_runs.c.id == run_id).values(cancelled_at=NOW))
        append_event(tx, "run.cancelled", subject=run_id, user_id=user_id, data={"status": "cancelled"})
    return get_run(tx, user_id, run_id)


def _cancel_live(tx: Transaction, run_id: str) -> None:
    cancel_of_subject(tx, run_id, (IMAGE,), "its run was cancelled")
    live = select(image_jobs.c.id).where(image_jobs.c.run_id == run_id, IS_LIVE)
    reason = Ended("cancelled", "CANCELLED", image_words("CANCELLED"))
    end_images(tx, ended=dict.fromkeys(tx.execute(live).scalars(), reason), tell_runs=False)
