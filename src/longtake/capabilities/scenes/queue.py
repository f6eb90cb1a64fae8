"""Queues images with holds, jobs and event in one transaction; tells when they will be done, or why none starts."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sqlalchemy import func, insert, select, update

from longtake.adapters.providers.errors import ProviderBusy
from longtake.capabilities.scenes.runs import LANE_PAUSED
from longtake.capabilities.scenes.tables import IMAGE, Run, Scene, get_run, image_jobs, scenes
from longtake.clock import new_id
from longtake.db import Transaction
from longtake.db.dialects import NOW, seconds_between
from longtake.engine.engine import Engine
from longtake.engine.events import append_event
from longtake.engine.jobs import JobRequest
from longtake.engine.lane_store import LaneView, lane_view
from longtake.engine.tables import jobs
from longtake.errors import NotFound, StateConflict
from longtake.services.credits import hold
from longtake.services.models import Model

MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class ImageOrder:
    """What all images queued by one request share."""

    model: Model
    lane: str
    #: The most live image jobs of one user.
    most: int
    request_id: str | None


def advance_run(
    tx: Transaction,
    engine: Engine,
    user_id: str,
    run_id: str,
    order: ImageOrder,
    failed: bool,  # noqa: FBT001 - called through Database.run, which passes positions only
) -> tuple[str, int, Run]:
    """Queue scenes without an image or a live image job; those that failed only with ``failed``.

    Returns what was done, how many scenes were queued, and the run after it. Advancing again changes nothing: the run
    is locked, so the second of two requests finds what the first queued.
    """
    run = get_run(tx, user_id, run_id, lock=True)
    _require_not_cancelled(run)
    wanted = [one for one in run.scenes if one.image is None and (one.job is None or (failed and not one.job.live))]
    if wanted:
        queue_scenes(tx, engine, run, wanted, order)
        return "images_queued", len(wanted), get_run(tx, user_id, run_id)
    if run.live:
        return "images_in_progress", 0, run
    return "run_completed" if run.status == "completed" else "nothing_to_queue", 0, run


def regenerate_scene(
    tx: Transaction, engine: Engine, user_id: str, run_id: str, number: int, prompt: str | None, order: ImageOrder
) -> Run:
    """Queue a scene again, with a new prompt if one is given; its image stays until the new one is finished."""
    run = get_run(tx, user_id, run_id, lock=True)
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
    given = {"run_id": run.id, "user_id": run.user_id, "price": order.model.credits, "request_id": order.request_id}
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
                lane=order.lane,
                subject=run.id,
                request_id=order.request_id,
            )
            for one in ids
        ],
    )
    data = {"status": "generating", "scenes": [scene.number for scene in wanted]}
    append_event(tx, "run.queued", subject=run.id, user_id=run.user_id, data=data)
    # Late: the user's balance is locked from here to the commit.
    amounts = dict.fromkeys(ids, order.model.credits)
    hold(tx, user_id=run.user_id, amounts=amounts, request_id=order.request_id, most=order.most)


def _require_not_cancelled(run: Run) -> None:
    if run.cancelled_at is not None:
        raise StateConflict(
            f"The run {run.id} is cancelled, so no more images can be generated for it.", run_status="cancelled"
        )


#: The number of newest images whose average says how long one takes.
SAMPLE = 50
_CODE = re.compile(r"[A-Z]+(_[A-Z]+)+")


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Why nothing starts now, and until when, if known."""

    code: str
    until: datetime | None


@dataclass(frozen=True, slots=True)
class RunOutlook:
    """What the engine knows about some runs."""

    #: Image jobs that no worker runs, whatever their rows say.
    waiting: Collection[str] = ()
    #: By run.
    ends: Mapping[str, datetime] = field(default_factory=dict)
    held_back: Mapping[str, HeldBack] = field(default_factory=dict)


NOTHING = RunOutlook()


def read_outlook(tx: Transaction, live: Mapping[str, Sequence[str]]) -> RunOutlook:
    """Return the outlook for live image jobs, given by run."""
    keys = [image_id for images in live.values() for image_id in images]
    found = tx.execute(select(jobs.c.key, jobs.c.lane, jobs.c.state).where(jobs.c.kind == IMAGE, jobs.c.key.in_(keys)))
    rows = {str(row.key): row for row in found}
    lanes = {name: lane_view(tx, name) for name in sorted({row.lane for row in rows.values()})}
    held = {name: _held_back(tx, view) for name, view in lanes.items()}
    usual, now = _usual_seconds(tx), tx.execute(select(NOW)).scalar_one()
    ends, held_back = {}, {}
    for run_id, images in live.items():
        mine = [rows[image_id] for image_id in images if image_id in rows]
        if not mine:
            continue
        view, last = lanes[mine[0].lane], max(str(row.key) for row in mine)
        if (reason := held[view.lane.name]) is not None:
            held_back[run_id] = reason
        if usual is not None and not view.paused:
            left = max(view.state.blocked or 0.0, 0.0) + _ahead(tx, view.lane.name, last) * _pace(view, usual)
            ends[run_id] = now + timedelta(seconds=left)
    return RunOutlook({key for key, row in rows.items() if row.state == "ready"}, ends, held_back)


def _held_back(tx: Transaction, view: LaneView) -> HeldBack | None:
    if view.paused:
        reason = view.paused_reason or ""
        return HeldBack(reason if _CODE.fullmatch(reason) else LANE_PAUSED, None)
    if (view.state.blocked or 0.0) <= 0:
        return None
    # Any image of the lane will do: a provider's answer to one stops the lane for all.
    told = select(jobs.c.error).where(jobs.c.lane == view.lane.name, jobs.c.kind == IMAGE, jobs.c.error.is_not(None))
    error = tx.execute(told.order_by(jobs.c.due_at.desc()).limit(1)).scalar() or {}
    until = tx.execute(select(NOW)).scalar_one() + timedelta(seconds=view.state.blocked or 0.0)
    return HeldBack(str(error.get("code") or ProviderBusy.code), until)


def _usual_seconds(tx: Transaction) -> float | None:
    """Return how long an image took lately; None while there is none."""
    newest = (
        select(seconds_between(image_jobs.c.started_at, image_jobs.c.completed_at).label("seconds"))
        .where(image_jobs.c.status == "completed", image_jobs.c.completed_at.is_not(None))
        .order_by(image_jobs.c.completed_at.desc())
        .limit(SAMPLE)
        .subquery()
    )
    found = tx.execute(select(func.avg(newest.c.seconds))).scalar()
    return None if found is None else float(found)


def _ahead(tx: Transaction, lane: str, last: str) -> int:
    """Count the lane's images up to this one. Ids begin with the time at which they were queued."""
    before = select(func.count()).select_from(jobs).where(jobs.c.kind == IMAGE, jobs.c.lane == lane, jobs.c.key <= last)
    return int(tx.execute(before).scalar_one())


def _pace(view: LaneView, usual: float) -> float:
    """Return the seconds between two ends in a full lane."""
    rate = view.lane.rate
    apart = view.lane.spacing or (rate[1] / rate[0] if rate else 0.0)
    return max(apart * view.state.factor(), usual / (view.lane.max_running or 1))
