"""Lanes in the database: declared, set, paused, slowed, and their limits' state under lock."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Float, Row, func, literal, literal_column, select, update
from sqlalchemy.dialects import postgresql, sqlite

from longtake.clock import Clock
from longtake.db import Transaction
from longtake.db.dialects import NOW, SQLITE, later, seconds_until, transaction_age
from longtake.engine.jobs import Job, Priority
from longtake.engine.lanes import (
    BLOCK_LONGEST_SECONDS,
    SLOWDOWN_MOST,
    STALE_SECONDS,
    Lane,
    LaneState,
    next_permit,
    permits,
)
from longtake.engine.leases import fenced, mark_alone
from longtake.engine.tables import job_kinds, jobs, lanes
from longtake.errors import NotFound

#: Another process is claiming from the lane, or its jobs run elsewhere: look again soon.
LANE_BUSY_SECONDS = 0.05
LANE_FULL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class LaneView:
    """A lane as operators see it."""

    lane: Lane
    state: LaneState
    paused: bool
    paused_reason: str | None


QUERY = select(
    lanes,
    seconds_until(lanes.c.arrival_at).label("arrival"),
    seconds_until(lanes.c.spaced_at).label("spaced"),
    seconds_until(lanes.c.blocked_until).label("blocked"),
    seconds_until(lanes.c.slowed_at).label("slowed"),
    transaction_age().label("age"),
)


def declare_lanes(tx: Transaction, declared: Iterable[Lane]) -> None:
    """Make the lanes, or change their limits to what the program says now; what operators set stays."""
    for lane in sorted(declared, key=lambda one: one.name):
        _insert_missing(tx, lane)
        ours = (lanes.c.name == lane.name, lanes.c.set_by == "program")
        tx.execute(update(lanes).where(*ours).values(**_limits(lane)))


def set_lane(tx: Transaction, lane: Lane) -> None:
    """Make the lane, or change its limits, for an operator; where its limits stand is kept."""
    _insert_missing(tx, lane)
    tx.execute(update(lanes).where(lanes.c.name == lane.name).values(**_limits(lane), set_by="operator"))


def pause_lane(tx: Transaction, name: str, reason: str | None = None) -> None:
    """Let no job of the lane start any more; those that run go on."""
    _change(tx, name, paused=True, paused_reason=reason)


def pause_unpaused(tx: Transaction, name: str, reason: str) -> bool:
    """Pause the lane unless it is paused; say whether it is paused for this reason. An earlier pause keeps its own."""
    unpaused = (lanes.c.name == name, lanes.c.paused.is_(False))
    tx.execute(update(lanes).where(*unpaused).values(paused=True, paused_reason=reason))
    return lane_view(tx, name).paused_reason == reason


def resume_lane(tx: Transaction, name: str) -> None:
    """Let jobs start again, those that wait because of the lane among them, and forget a server's request to wait."""
    _change(tx, name, paused=False, paused_reason=None, blocked_until=None)
    wake_lane(tx, name)


def hold_lane(tx: Transaction, name: str, seconds: float, *, slow: bool) -> None:
    """Hold the lane back for so long; ``slow`` also doubles its intervals, for a remote side that finds us too fast."""
    state = lane_view(tx, name).state
    held: dict[str, Any] = {"blocked_until": later(max(min(seconds, BLOCK_LONGEST_SECONDS), state.blocked or 0.0))}
    if slow:
        held |= {"slowdown": min(state.factor() * 2, SLOWDOWN_MOST), "slowed_at": NOW}
    _change(tx, name, **held)


def wake_lane(tx: Transaction, name: str) -> int:
    """Make due the jobs that wait because of trouble with the lane: it is over. Return how many there were.

    They are spread as the lane's rate lets them start, so that they do not push newer jobs aside all at once.
    """
    view = lane_view(tx, name)
    apart = view.lane.interval * view.state.factor()
    kinds = list(tx.execute(select(job_kinds.c.name)).scalars())
    # Every column of the index of claims is bound: jobs that are due already, perhaps a million, are not read.
    queues = (jobs.c.lane == name, jobs.c.kind.in_(kinds), jobs.c.priority.in_(tuple(Priority)), jobs.c.due_at > NOW)
    troubled = jobs.c.error.op("->>")(literal_column("'lane_trouble'")).is_not(None)
    waits = (jobs.c.state == literal_column("'ready'"), *queues, troubled)
    # What another transaction holds at this moment is changing anyway.
    free = select(jobs.c.id, jobs.c.due_at).where(*waits).with_for_update(skip_locked=True).subquery()
    place = func.row_number().over(order_by=free.c.due_at) - 1
    turns = select(free.c.id, (place * literal(apart, Float)).label("seconds")).subquery()
    sooner = update(jobs).where(jobs.c.id == turns.c.id, jobs.c.due_at > later(turns.c.seconds))
    woken = tx.execute(sooner.values(due_at=later(turns.c.seconds))).rowcount
    if woken:
        tx.signal("jobs")
    return woken


def lane_view(tx: Transaction, name: str) -> LaneView:
    """Return one lane."""
    row = tx.execute(QUERY.where(lanes.c.name == name)).first()
    if row is None:
        raise _no_lane(name)
    return _view(row)


def all_lanes(tx: Transaction) -> list[LaneView]:
    """Return every lane, by name."""
    return [_view(row) for row in tx.execute(QUERY.order_by(lanes.c.name))]


def lock_lane(tx: Transaction, name: str) -> LaneView | None:
    """Return the lane, locked until the commit; None if it is paused or another transaction has locked it.

    Not in a transaction that stood still since it began: by its ``now()`` others' starts would lie far ahead, as if
    the clock had gone back.
    """
    # SQLite's one writer is a lock already.
    row = tx.execute(QUERY.where(lanes.c.name == name).with_for_update(skip_locked=True)).first()
    return None if row is None or row.paused or row.age > STALE_SECONDS else _view(row)


def lock_lanes(tx: Transaction) -> None:
    """Lock all lanes in order of name: for a transaction that changes several, and does not know yet which."""
    tx.execute(select(lanes.c.name).order_by(lanes.c.name).with_for_update()).all()


def running_in(tx: Transaction, name: str) -> int:
    """Count the lane's running jobs. Under the lane's lock it can only be too high, never too low."""
    count = select(func.count()).select_from(jobs).where(jobs.c.state == "running", jobs.c.lane == name)
    return int(tx.execute(count).scalar_one())


def save_state(tx: Transaction, name: str, state: LaneState) -> None:
    """Write where the limits stand after a claim."""
    moments = {"arrival_at": state.arrival, "spaced_at": state.spaced}
    values = {column: later(seconds) for column, seconds in moments.items() if seconds is not None}
    if values:
        tx.execute(update(lanes).where(lanes.c.name == name).values(**values))


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
        wait = next_permit(lane, view.state) - lane.horizon(claim_seconds)
        # A lane that is blocked for less than the horizon gives nothing yet.
        return NewPermit(wait if wait > 0 else LANE_BUSY_SECONDS)
    save_state(tx, name, after)
    if job.alone:
        mark_alone(tx, job)
    return NewPermit(0.0, starts[0], counted_from, lane.permit_lifetime)


def _insert_missing(tx: Transaction, lane: Lane) -> None:
    dialect = sqlite if tx.dialect == SQLITE else postgresql
    tx.execute(dialect.insert(lanes).values(name=lane.name, **_limits(lane)).on_conflict_do_nothing())


def limits_of(lane: Lane) -> dict[str, Any]:
    """Return the limits as operators set them."""
    return {
        "max_running": lane.max_running,
        "rate_count": lane.rate[0] if lane.rate else None,
        "rate_seconds": lane.rate[1] if lane.rate else None,
        "burst": lane.burst,
        "spacing_seconds": lane.spacing,
    }


def _limits(lane: Lane) -> dict[str, Any]:
    return {**limits_of(lane), "limited": lane.limited}


def _view(row: Row[Any]) -> LaneView:
    rate = None if row.rate_count is None else (row.rate_count, row.rate_seconds)
    lane = Lane(row.name, row.max_running, rate, row.burst, row.spacing_seconds)
    state = LaneState(row.arrival, row.spaced, row.blocked, row.slowdown, row.slowed)
    return LaneView(lane, state, bool(row.paused), row.paused_reason)


def _change(tx: Transaction, name: str, **values: Any) -> None:
    if tx.execute(update(lanes).where(lanes.c.name == name).values(**values)).rowcount == 0:
        raise _no_lane(name)


def _no_lane(name: str) -> NotFound:
    return NotFound(f"There is no lane {name!r}.", hint="`longtake lanes list` shows those there are.")
