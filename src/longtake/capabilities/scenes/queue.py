"""Queues images: holds, image jobs, engine jobs and one event in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import insert, update

from longtake.capabilities.scenes.models import SceneModel
from longtake.capabilities.scenes.queries import Run, Scene, get_run, lock_run
from longtake.capabilities.scenes.tables import IMAGE, image_jobs, scenes
from longtake.clock import new_id
from longtake.db import Transaction
from longtake.db.dialects import NOW
from longtake.engine.engine import Engine
from longtake.engine.events import append_event
from longtake.engine.jobs import JobRequest
from longtake.errors import NotFound, StateConflict
from longtake.services.credits import hold_each

MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class ImageOrder:
    """What all images queued by one request share."""

    model: SceneModel
    #: The most live image jobs of one user.
    most: int
    request_id: str | None


@dataclass(frozen=True, slots=True)
class AdvanceResult:
    """What an advance did, and the run after it."""

    action: str
    queued: int
    run: Run


def advance_run(
    tx: Transaction,
    engine: Engine,
    user_id: str,
    run_id: str,
    order: ImageOrder,
    failed: bool,  # noqa: FBT001 - called through Database.run, which passes positions only
) -> AdvanceResult:
    """Queue scenes without an image or a live image job; those that failed only with ``failed``.

    Advancing again changes nothing: the run is locked, so the second of two requests finds what the first queued.
    """
    run = lock_run(tx, user_id, run_id)
    _require_not_cancelled(run)
    wanted = [one for one in run.scenes if one.image is None and (one.job is None or (failed and not one.job.live))]
    if wanted:
        queue_scenes(tx, engine, run, wanted, order)
        return AdvanceResult("images_queued", len(wanted), get_run(tx, user_id, run_id))
    if run.live:
        return AdvanceResult("images_in_progress", 0, run)
    return AdvanceResult("run_completed" if run.status == "completed" else "nothing_to_queue", 0, run)


def regenerate_scene(
    tx: Transaction, engine: Engine, user_id: str, run_id: str, number: int, prompt: str | None, order: ImageOrder
) -> Run:
    """Queue a scene again, with a new prompt if one is given; its image stays until the new one is finished."""
    run = lock_run(tx, user_id, run_id)
    _require_not_cancelled(run)
    scene = next((one for one in run.scenes if one.number == number), None)
    if scene is None:
        raise NotFound(f"The run {run_id} has no scene {number}.", hint=f"It has 1 to {len(run.scenes)}.")
    if scene.job is not None and scene.job.live:
        message = f"Scene {number} is {scene.job.status}, and can be generated again only when that has ended."
        raise StateConflict(message, scene_state=scene.job.status)
    if prompt is not None:
        this = (scenes.c.run_id == run_id, scenes.c.position == number)
        tx.execute(update(scenes).where(*this).values(prompt=prompt))
        scene = replace(scene, prompt=prompt)
    queue_scenes(tx, engine, run, [scene], order)
    return get_run(tx, user_id, run_id)


def queue_scenes(tx: Transaction, engine: Engine, run: Run, wanted: Sequence[Scene], order: ImageOrder) -> None:
    """Queue these scenes' images; all are refused when the credits do not suffice for all."""
    ids = [new_id() for _ in wanted]
    given = {"run_id": run.id, "user_id": run.user_id, "price": order.model.price, "request_id": order.request_id}
    rows = [
        {"id": one, "position": scene.number, "prompt": scene.prompt} for one, scene in zip(ids, wanted, strict=True)
    ]
    first = {"status": "queued", "attempt": 0, "max_attempts": MAX_ATTEMPTS, "queued_at": NOW}
    tx.execute(insert(image_jobs).values(**given, **first), rows)
    engine.enqueue_many(
        tx,
        [
            JobRequest(
                IMAGE,
                {"provider": order.model.provider},
                key=one,
                lane=order.model.lane,
                subject=run.id,
                request_id=order.request_id,
            )
            for one in ids
        ],
    )
    data = {"status": "generating", "scenes": [scene.number for scene in wanted]}
    append_event(tx, "run.queued", subject=run.id, user_id=run.user_id, data=data)
    # Late: the user's balance is locked from here to the commit.
    amounts = dict.fromkeys(ids, order.model.price)
    hold_each(tx, user_id=run.user_id, amounts=amounts, request_id=order.request_id, most=order.most)


def _require_not_cancelled(run: Run) -> None:
    if run.cancelled_at is not None:
        raise StateConflict(
            f"The run {run.id} is cancelled, so no more images can be generated for it.", run_status="cancelled"
        )
