"""Claiming: a lease on due jobs, from lanes without limits in bulk, from limited ones by permit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from longtake.clock import new_id
from longtake.engine.lane_store import lane_view, lock_lane, running_in, save_state
from longtake.engine.lanes import next_permit, permits
from longtake.engine.leases import fenced, mark_alone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake.clock import Clock
    from longtake.db import Transaction
    from longtake.engine.jobs import Job
    from longtake.engine.queue import Head, Queue, QueueName

#: Somebody else is claiming from the lane, or its jobs run elsewhere: look again soon.
LANE_BUSY_SECONDS = 0.05
LANE_FULL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Claim:
    """What was claimed. ``heads`` is filled when it was less than wanted: it says what waits, and until when."""

    jobs: list[Job] = field(default_factory=list)
    heads: list[Head] | None = None
    #: For limited lanes: when each job may start (seconds from the claim), and how late it may be at most.
    starts: list[float] = field(default_factory=list)
    lifetime: float | None = None
    #: From when these seconds count (monotonic): the database's ``now()`` was not later.
    counted_from: float = 0.0
    #: When it is to be claimed from the lane again: before the next permit, since asking takes time too.
    next_in: float = 0.0
    #: As many run as may: the next start is when one of them ends.
    lane_full: bool = False


def claim_unlimited(
    tx: Transaction, queue: Queue, queues: Sequence[QueueName], worker: str, wanted: int, *, look: bool = False
) -> Claim:
    """Lease up to ``wanted`` due jobs from lanes that have no limits."""
    jobs = queue.claim(tx, queues, new_id(), worker, wanted, limited=False) if queues else []
    jobs.sort(key=_order)
    return Claim(jobs, queue.heads(tx) if look or len(jobs) < wanted else None)


def claim_from_lane(
    tx: Transaction,
    queue: Queue,
    name: str,
    queues: Sequence[QueueName],
    worker: str,
    wanted: int,
    *,
    counted_from: float = 0.0,
    claim_seconds: float = 0.0,
) -> Claim:
    """Lease what a limited lane permits. The lane's row is locked from here to the commit."""
    view = lock_lane(tx, name)
    if view is None:
        return Claim(next_in=LANE_BUSY_SECONDS)
    running = running_in(tx, name) if view.lane.max_running is not None else 0
    starts, after = permits(view.lane, view.state, running, wanted, claim_seconds)
    jobs: list[Job] = []
    if starts:
        jobs = queue.claim(tx, queues, new_id(), worker, len(starts), limited=True)
        jobs.sort(key=_order)
        starts, after = permits(view.lane, view.state, running, len(jobs), claim_seconds)
    # Also without a start: after the clock went back, the wait that is left is counted from this moment on.
    if after != view.state:
        save_state(tx, name, after)
    full = view.lane.max_running is not None and running + len(jobs) >= view.lane.max_running
    next_in = LANE_FULL_SECONDS if full else next_permit(view.lane, after)
    if starts and not full:
        next_in = max(next_in - view.lane.horizon(claim_seconds) / 2, 0.0)
    lifetime = view.lane.permit_lifetime if view.lane.timed else None
    return Claim(jobs, None, starts, lifetime, counted_from, next_in, full)


@dataclass(frozen=True, slots=True)
class NewPermit:
    """A permit for a job that runs already; without one, how long to wait before asking again."""

    wait: float = 0.0
    #: As in a claim: when the job may start, counted from when, and how late at most. None: there is no permit yet.
    starts_in: float | None = None
    counted_from: float = 0.0
    lifetime: float = 0.0


def new_permit(tx: Transaction, job: Job, name: str, clock: Clock, claim_seconds: float) -> NewPermit:
    """Give a running job of ours a permit of a lane: of its own, whose permit has lapsed, or of another for one call.

    Only time limits it: in its own lane it counts among the running jobs already. If it runs alone, that is recorded.
    """
    counted_from = clock.monotonic()
    if not fenced(tx, job):
        return NewPermit(math.inf)
    view = lock_lane(tx, name)
    if view is None:
        return NewPermit(math.inf if lane_view(tx, name).paused else LANE_BUSY_SECONDS)
    lane = replace(view.lane, max_running=None)
    starts, after = permits(lane, view.state, 0, 1, claim_seconds)
    if not starts:
        return NewPermit(next_permit(lane, view.state) - lane.horizon(claim_seconds))
    save_state(tx, name, after)
    if job.alone:
        mark_alone(tx, job)
    return NewPermit(0.0, starts[0], counted_from, lane.permit_lifetime)


def _order(job: Job) -> tuple[int, object]:
    return (job.priority, job.due_at)
