"""The arithmetic of lanes: whatever is asked for whenever, no limit is ever broken, and none is held too long."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtake import Lane
from longtake.engine.errors import InvalidDefinition
from longtake.engine.lanes import (
    HORIZON_LONGEST,
    PERMIT_LONGEST,
    RECOVERY_SECONDS,
    SLOWDOWN_MOST,
    STALE_SECONDS,
    WAITING_PART,
    LaneState,
    next_permit,
    permits,
)

#: Far below a microsecond, the databases' own unit.
TOLERANCE = 1e-7


@st.composite
def timed_lanes(draw: st.DrawFn) -> Lane:
    rate = draw(st.none() | st.tuples(st.integers(1, 50), st.floats(0.05, 120)))
    burst = draw(st.integers(1, rate[0])) if rate else 1
    spacing = draw(st.floats(0.01, 30)) if rate is None else draw(st.none() | st.floats(0.01, 30))
    return Lane("any", draw(st.none() | st.integers(1, 60)), rate=rate, burst=burst, spacing=spacing)


#: How long after the claim before, how many are wanted, and how late every other one starts (as part of the lifetime).
Asked = tuple[float, int, float]
claims: st.SearchStrategy[list[Asked]] = st.lists(
    st.tuples(st.floats(0, 0.2) | st.floats(0, 60), st.integers(1, 60), st.sampled_from([0.0, 1.0]) | st.floats(0, 1)),
    min_size=1,
    max_size=25,
)


def real_starts(lane: Lane, now: float, permitted: list[float], late: float) -> list[float]:
    """Return when handlers really start: at their permits' time, or later by up to the lifetime."""
    return [now + start + (late * lane.permit_lifetime if index % 2 else 0.0) for index, start in enumerate(permitted)]


def after(state: LaneState, seconds: float) -> LaneState:
    """Return the same state as it looks so much later."""

    def moved(value: float | None) -> float | None:
        return None if value is None else value - seconds

    return replace(
        state,
        arrival=moved(state.arrival),
        spaced=moved(state.spaced),
        blocked=moved(state.blocked),
        slowed=moved(state.slowed),
    )


def play(lane: Lane, asked: list[Asked]) -> list[float]:
    """Return when handlers really start."""
    state, now = LaneState(), 0.0
    starts: list[float] = []
    for pause, wanted, late in asked:
        now += pause
        permitted, state = permits(lane, after(state, pause), 0, wanted)
        starts += real_starts(lane, now, permitted, late)
    return sorted(starts)


@given(timed_lanes(), claims)
def test_no_window_holds_more_starts_than_the_rate_allows(lane: Lane, asked: list[Asked]) -> None:
    if lane.rate is None:
        return
    count, period = lane.rate
    starts = play(lane, asked)
    for earlier, later in zip(starts, starts[count:], strict=False):
        assert later - earlier >= period - TOLERANCE


@given(timed_lanes(), claims)
def test_starts_are_never_closer_than_the_spacing(lane: Lane, asked: list[Asked]) -> None:
    starts = play(lane, asked)
    for earlier, later in itertools.pairwise(starts):
        assert later - earlier >= (lane.spacing or 0.0) - TOLERANCE


@given(timed_lanes(), st.lists(st.sampled_from([0.0, 0.0, 1.0]) | st.floats(0, 1), min_size=120, max_size=120))
def test_limits_hold_when_every_permit_is_taken_as_soon_as_it_can_be(lane: Lane, lateness: list[float]) -> None:
    """The hardest case: always somebody waiting, some starts as late as they may be and others on time."""
    state, now = LaneState(), 0.0
    starts: list[float] = []
    while len(starts) < len(lateness):
        wait = next_permit(lane, state)
        now += wait
        permitted, state = permits(lane, after(state, wait), 0, 10)
        starts += [now + start for start in permitted]
    starts = sorted(start + late * lane.permit_lifetime for start, late in zip(starts, lateness, strict=False))
    assert all(later - earlier >= (lane.spacing or 0.0) - TOLERANCE for earlier, later in itertools.pairwise(starts))
    if lane.rate is not None:
        count, period = lane.rate
        windows = zip(starts, starts[count:], strict=False)
        assert all(later - earlier >= period - TOLERANCE for earlier, later in windows)


@given(timed_lanes(), claims)
def test_what_is_waited_for_is_then_permitted(lane: Lane, asked: list[Asked]) -> None:
    """Whoever comes back when told gets at least one start: nobody waits in vain."""
    state = LaneState()
    for pause, wanted, _late in asked:
        _permitted, state = permits(lane, after(state, pause), 0, wanted)
        wait = next_permit(lane, state)
        permitted, _state = permits(lane, after(state, wait), 0, 1)
        assert len(permitted) == 1
        assert permitted[0] <= TOLERANCE


@given(timed_lanes(), st.integers(1, 60))
def test_of_those_that_may_run_only_few_wait_for_their_time(lane: Lane, most: int) -> None:
    permitted, _state = permits(replace(lane, max_running=most, burst=1), LaneState(), 0, 1000)
    assert len(permitted) >= 1
    assert sum(start > TOLERANCE for start in permitted) <= most * WAITING_PART


@given(st.integers(1, 50), st.floats(0.5, 120), st.data())
def test_an_idle_lane_permits_its_burst_at_once(count: int, period: float, data: st.DataObject) -> None:
    burst = data.draw(st.integers(1, count))
    lane = Lane("any", rate=(count, period), burst=burst)
    permitted, state = permits(lane, LaneState(), 0, 1000)
    assert permitted[:burst] == pytest.approx([0.0] * burst, abs=TOLERANCE)
    assert all(start > TOLERANCE for start in permitted[burst:])
    # After a whole quiet period (and what lateness takes) the burst is there again.
    rested = after(state, (period + lane.permit_lifetime) * burst + HORIZON_LONGEST)
    assert permits(lane, rested, 0, 1000)[0][:burst] == pytest.approx([0.0] * burst, abs=TOLERANCE)


@given(timed_lanes(), st.floats(1, 1e7), claims)
def test_a_clock_that_goes_back_blocks_no_longer_than_one_interval(lane: Lane, jump: float, asked: list[Asked]) -> None:
    state = LaneState()
    for pause, wanted, _late in asked:
        _permitted, state = permits(lane, after(state, pause), 0, wanted)
    interval = 0.0
    if lane.rate is not None:
        interval = (lane.rate[1] + lane.permit_lifetime) / (lane.rate[0] - lane.burst + 1)
    longest = max(interval, (lane.spacing or 0.0) + lane.permit_lifetime) + HORIZON_LONGEST + STALE_SECONDS
    assert next_permit(lane, after(state, -jump)) <= longest + TOLERANCE


@given(timed_lanes(), claims, claims, st.floats(1, 1e7))
def test_a_clock_that_goes_back_breaks_no_limit(
    lane: Lane,
    before: list[Asked],
    later: list[Asked],
    jump: float,
) -> None:
    """Real time goes on while the clock says otherwise: starts on both sides of the jump keep the limits."""
    state, now, starts = LaneState(), 0.0, []
    for index, (pause, wanted, late) in enumerate([*before, *later]):
        now += pause
        state = after(state, pause)
        if index == len(before):
            state = after(state, -jump)
        permitted, state = permits(lane, state, 0, wanted)
        starts += real_starts(lane, now, permitted, late)
    starts.sort()
    for earlier, last in itertools.pairwise(starts):
        assert last - earlier >= (lane.spacing or 0.0) - TOLERANCE
    if lane.rate is not None:
        for earlier, last in zip(starts, starts[lane.rate[0] :], strict=False):
            assert last - earlier >= lane.rate[1] - TOLERANCE


@given(st.integers(1, 20), st.integers(0, 40), st.integers(0, 40))
def test_no_more_run_than_may(most: int, running: int, wanted: int) -> None:
    permitted, state = permits(Lane("any", max_running=most), LaneState(), running, wanted)
    assert len(permitted) == max(0, min(wanted, most - running))
    assert state == LaneState()


@given(timed_lanes(), st.floats(0.001, 1000))
def test_a_blocked_lane_permits_nothing_until_its_time(lane: Lane, blocked: float) -> None:
    state = LaneState(blocked=blocked)
    assert permits(lane, state, 0, 10)[0] == []
    assert next_permit(lane, state) == blocked
    assert permits(lane, after(state, blocked), 0, 10)[0] != []


@given(st.floats(1, SLOWDOWN_MOST), st.floats(0, 3600))
def test_a_slowed_lane_recovers_by_halves(slowdown: float, quiet: float) -> None:
    state = LaneState(slowdown=slowdown, slowed=-quiet)
    halvings = quiet // RECOVERY_SECONDS
    assert state.factor() == pytest.approx(max(1.0, slowdown / 2**halvings))
    assert LaneState(slowdown=slowdown, slowed=quiet + 1).factor() == slowdown


@given(timed_lanes(), st.sampled_from([2.0, 4.0, 16.0]))
def test_a_slowed_lane_has_longer_intervals(lane: Lane, factor: float) -> None:
    _starts, usual = permits(lane, LaneState(), 0, 1)
    _starts, slowed = permits(lane, LaneState(slowdown=factor, slowed=0.0), 0, 1)
    if lane.rate is not None:
        assert slowed.arrival == pytest.approx((usual.arrival or 0.0) * factor)
    if lane.spacing is not None:
        assert slowed.spaced == pytest.approx((usual.spaced or 0.0) * factor)


@given(timed_lanes())
def test_a_permit_lives_briefly(lane: Lane) -> None:
    assert 0 < lane.permit_lifetime <= PERMIT_LONGEST


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "x" * 101},
        {"max_running": 0},
        {"rate": (0, 1.0)},
        {"rate": (1, 0.0)},
        {"rate": (5, 1.0), "burst": 6},
        {"burst": 0},
        {"spacing": 0.0},
    ],
)
def test_a_lane_that_cannot_work_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidDefinition):
        Lane(**({"name": "any"} | wrong))  # type: ignore[arg-type]


@given(timed_lanes(), st.floats(0.0, 1.0), claims)
def test_limits_hold_and_no_permit_is_over_before_the_answer_however_long_claims_take(
    lane: Lane, claim_seconds: float, asked: list[Asked]
) -> None:
    state, now, starts = LaneState(), 0.0, []
    for pause, wanted, late in asked:
        now += pause
        permitted, state = permits(lane, after(state, pause), 0, wanted, claim_seconds)
        if permitted and claim_seconds > lane.permit_lifetime:
            assert permitted[0] >= min(claim_seconds, HORIZON_LONGEST)
        starts += real_starts(lane, now, permitted, late)
    starts.sort()
    assert all(later - earlier >= (lane.spacing or 0.0) - TOLERANCE for earlier, later in itertools.pairwise(starts))
    if lane.rate is not None:
        count, period = lane.rate
        assert all(b - a >= period - TOLERANCE for a, b in zip(starts, starts[count:], strict=False))


@pytest.mark.parametrize("claim_seconds", [0.0, 0.02, 0.1, 0.3, 5.0])
def test_a_lane_gives_permits_however_long_claims_take(claim_seconds: float) -> None:
    permitted, _state = permits(Lane("any", 5, rate=(40, 1.0)), LaneState(), 0, 5, claim_seconds)
    assert permitted
