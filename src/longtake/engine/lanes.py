"""Lanes: how many jobs may run at once, and how often one may start, exactly, over all machines.

Limits themselves are where lanes are declared: a provider's in its adapter, others in `capability.py`.

A claim in a limited lane locks the lane's row, so one process at a time decides. Rate is GCRA: ``arrival_at`` is
when the next start would be due if all came evenly. With ``burst`` b and an emission interval of
``period / (count - b + 1)`` no window of the period's length ever holds more than ``count`` starts.

A permit is for the start of the call. The worker may start a little later than the permit says, so every limit is
stretched by the permit's lifetime, and a job that starts later is given back unspent.
"""

import math
from dataclasses import dataclass

from longtake.engine.errors import InvalidDefinition

#: A permit's lifetime: this part of the limit it belongs to, between the two bounds.
PERMIT_PART = 0.03
PERMIT_SHORTEST = 0.02
PERMIT_LONGEST = 0.2
#: How far ahead permits are given, so that a fast lane needs no claim for each start; further where claims take long.
HORIZON_SECONDS = 0.1
HORIZON_LONGEST = 0.4
#: How many claims may be under way, one after the other, until the last permit of one is used.
HORIZON_CLAIMS = 3
#: How long ago a transaction may have begun that claims from a lane.
STALE_SECONDS = 0.1
#: A job that waits for its permit's time counts as running: where few may, no more than this part of them does so.
WAITING_PART = 0.25
#: A lane slowed by a 429 doubles its intervals, up to this, and halves them again after each quiet minute.
SLOWDOWN_MOST = 16.0
RECOVERY_SECONDS = 60.0
#: However absurd the server's Retry-After is.
BLOCK_LONGEST_SECONDS = 3600.0 * 24
NAME_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Lane:
    """The limits of a lane; None means no limit."""

    name: str
    max_running: int | None = None
    rate: tuple[int, float] | None = None
    burst: int = 1
    spacing: float | None = None

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise InvalidDefinition(f"The lane {self.name!r} {problem}.")

    def _problem(self) -> str | None:
        if not self.name or len(self.name) > NAME_LIMIT:
            return f"must have a name of 1 to {NAME_LIMIT} characters"
        if self.max_running is not None and self.max_running < 1:
            return f"has max_running {self.max_running}; it must be 1 or more (pause the lane to stop it)"
        if self.rate is not None and (self.rate[0] < 1 or self.rate[1] <= 0):
            return f"has rate {self.rate}; it must be a count of 1 or more in a positive number of seconds"
        if self.burst < 1 or (self.rate is not None and self.burst > self.rate[0]):
            return f"has burst {self.burst}; it must be 1 to the rate's count"
        if self.spacing is not None and self.spacing <= 0:
            return f"has spacing {self.spacing}; it must be a positive number of seconds"
        return None

    @property
    def limited(self) -> bool:
        """Say whether claiming here needs the lane's lock."""
        return self.max_running is not None or self.timed

    @property
    def timed(self) -> bool:
        """Say whether starts need permits."""
        return self.rate is not None or self.spacing is not None

    @property
    def permit_lifetime(self) -> float:
        """Return how late a start may be."""
        limits = [self.spacing, self.rate[1] if self.rate else None]
        shortest = min((one for one in limits if one is not None), default=0.0)
        return min(max(shortest * PERMIT_PART, PERMIT_SHORTEST), PERMIT_LONGEST)

    @property
    def interval(self) -> float:
        """Return how far apart starts are at least, on average."""
        return max(self.spacing or 0.0, self.rate[1] / self.rate[0] if self.rate else 0.0)

    def horizon(self, claim_seconds: float) -> float:
        """Return how far ahead permits are given where a claim takes so long."""
        horizon = HORIZON_SECONDS
        if self.max_running is not None:
            horizon = min(HORIZON_SECONDS, self.max_running * self.interval * WAITING_PART)
        return min(max(horizon, HORIZON_CLAIMS * claim_seconds), HORIZON_LONGEST)

    def earliest(self, claim_seconds: float) -> float:
        """Return how far ahead the first permit is given: none that would be over before its claim is answered."""
        return min(claim_seconds, HORIZON_LONGEST) if claim_seconds > self.permit_lifetime / 2 else 0.0


@dataclass(frozen=True, slots=True)
class LaneState:
    """Where the limits stand, in seconds from now by the database's clock (negative: past)."""

    arrival: float | None = None
    spaced: float | None = None
    blocked: float | None = None
    slowdown: float = 1.0
    slowed: float | None = None

    def factor(self) -> float:
        """Return by how much intervals are stretched now: halved after each quiet minute."""
        if self.slowdown <= 1.0 or self.slowed is None:
            return 1.0
        # A clock that went back would make the 429 lie in the future: count from now, then.
        quiet_minutes = int(max(-self.slowed, 0.0) // RECOVERY_SECONDS)
        return max(1.0, self.slowdown * math.pow(0.5, quiet_minutes))


def permits(
    lane: Lane, state: LaneState, running: int, wanted: int, claim_seconds: float = 0.0
) -> tuple[list[float], LaneState]:
    """Return when the next starts may be (seconds from now, at most the lane's horizon) and the state after them."""
    room = wanted if lane.max_running is None else min(wanted, lane.max_running - running)
    if (state.blocked or 0.0) > 0.0 or room <= 0:
        return [], state
    if not lane.timed:
        return [0.0] * room, state
    interval, tolerance, gap, arrival, spaced = _position(lane, state)
    starts: list[float] = []
    horizon, earliest = lane.horizon(claim_seconds), lane.earliest(claim_seconds)
    while len(starts) < room:
        start = max(earliest, arrival - tolerance, spaced)
        if start > horizon:
            break
        starts.append(start)
        arrival = max(arrival, start) + interval
        spaced = start + gap
    after = LaneState(arrival, spaced, state.blocked, state.slowdown, state.slowed)
    return starts, after


def next_permit(lane: Lane, state: LaneState) -> float:
    """Return in how many seconds a start may be permitted, as far as time decides it."""
    if (state.blocked or 0.0) > 0.0:
        return state.blocked or 0.0
    if not lane.timed:
        return 0.0
    _interval, tolerance, _gap, arrival, spaced = _position(lane, state)
    return max(0.0, arrival - tolerance, spaced)


def _position(lane: Lane, state: LaneState) -> tuple[float, float, float, float, float]:
    """Return emission interval, burst tolerance and spacing, stretched by lifetime and slowdown, and where we stand."""
    factor = state.factor()
    interval = tolerance = gap = 0.0
    if lane.rate is not None:
        count, period = lane.rate
        interval = (period + lane.permit_lifetime) * factor / (count - lane.burst + 1)
        tolerance = (lane.burst - 1) * interval
    if lane.spacing is not None:
        gap = (lane.spacing + lane.permit_lifetime) * factor
    # Further ahead than the limits can bring it: the clock went back, or the limits were relaxed. Wait one interval.
    arrival = min(state.arrival or 0.0, tolerance + interval + HORIZON_LONGEST + STALE_SECONDS)
    spaced = min(state.spaced or 0.0, gap + HORIZON_LONGEST + STALE_SECONDS)
    return interval, tolerance, gap, arrival, spaced
