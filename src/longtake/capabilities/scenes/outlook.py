"""What the engine knows about live images: which are waiting, when a run will end, and what holds it back.

Jobs and lanes belong to no user. They are read in a short transaction of their own, and only for runs that were read as
their user's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import func, select

from longtake.capabilities.scenes.endings import LANE_PAUSED
from longtake.capabilities.scenes.tables import IMAGE, image_jobs
from longtake.db import Transaction
from longtake.db.dialects import NOW, seconds_between
from longtake.engine.lane_store import LaneView, lane_view
from longtake.engine.tables import jobs
from longtake.errors import ProviderBusy

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
