"""Lanes in the database: the limits hold over all workers, by the database's clock."""

from __future__ import annotations

import asyncio
import itertools
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from longtake import Database, Done, Engine, JobKind, Lane, Outcome, Retry, Snooze, open_database
from longtake.engine.lane_store import declare_lanes, hold_lane, lane_view, lock_lane, set_lane
from longtake.engine.lanes import STALE_SECONDS
from tests.engine.stage import (
    KIND,
    Stage,
    build,
    claim,
    claim_lane,
    done,
    enqueue,
    execute,
    finish,
    hire,
)
from tests.wait import wait_for

if TYPE_CHECKING:
    from longtake import Job, Transaction
    from tests.databases import StoppedClock

slow_lane = partial(hold_lane, slow=True)


def build_lane(database: Database, **limits: object) -> Engine:
    lane = Lane("narrow", **limits)  # type: ignore[arg-type]
    return build(database, JobKind(KIND, done, lane="narrow"), lanes=[lane])


def test_no_more_run_than_may_over_two_workers(stopped_database: Database) -> None:
    engine = build_lane(stopped_database, max_running=3)
    run = stopped_database.run_blocking
    workers = [run(hire), run(hire)]
    for _ in range(8):
        enqueue(engine)
    first = run(claim_lane, engine, "narrow", workers[0], 2)
    second = run(claim_lane, engine, "narrow", workers[1], 2)
    assert (len(first), len(second)) == (2, 1)
    assert run(claim_lane, engine, "narrow", workers[0]) == []
    run(finish, engine, second[0], Done())
    run(finish, engine, first[0], Snooze(60))
    assert len(run(claim_lane, engine, "narrow", workers[1])) == 2
    assert run(claim_lane, engine, "narrow", workers[1]) == []


async def test_two_workers_that_claim_at_once_do_not_exceed_it_together(database: Database) -> None:
    engine = Engine(database, [JobKind(KIND, done, lane="narrow")], [Lane("narrow", max_running=5)])
    await engine.start()
    workers = [await database.run(hire) for _ in range(4)]
    for _ in range(30):
        await database.run(lambda tx: engine.enqueue(tx, KIND))
    for _ in range(5):
        claims = await asyncio.gather(*(database.run(claim_lane, engine, "narrow", one, 4) for one in workers))
        jobs = [job for jobs in claims for job in jobs]
        assert 1 <= len(jobs) <= 5
        for job in jobs:
            await database.run(finish, engine, job, Done())


def test_a_limited_lane_is_not_claimed_from_without_its_lock(stopped_database: Database) -> None:
    engine = build_lane(stopped_database, max_running=3)
    enqueue(engine)
    run = stopped_database.run_blocking

    def claim_around(tx: object) -> list[Job]:
        heads = [head.queue for head in engine.queue.heads(tx)]  # type: ignore[arg-type]
        return engine.exchange(tx, [], heads, worker, 10, False).jobs  # type: ignore[arg-type]

    worker = run(hire)
    assert run(claim_around) == []
    assert run(claim, engine, worker) == []


def test_spacing_holds_over_two_workers(stopped_database: Database, clock: StoppedClock) -> None:
    engine = build_lane(stopped_database, spacing=10.0)
    run = stopped_database.run_blocking
    workers = [run(hire), run(hire)]
    for _ in range(5):
        enqueue(engine)
    moments = []
    for step in range(200):
        if run(claim_lane, engine, "narrow", workers[step % 2], 3):
            moments.append(clock.monotonic())
        clock.advance(0.25)
    gaps = [later - earlier for earlier, later in itertools.pairwise(moments)]
    assert len(moments) == 5
    # Not closer than it says, and not much wider either.
    assert all(10.0 <= gap <= 10.5 for gap in gaps)


def test_the_rate_holds_over_two_workers(stopped_database: Database, clock: StoppedClock) -> None:
    engine = build_lane(stopped_database, rate=(4, 10.0), burst=2)
    run = stopped_database.run_blocking
    workers = [run(hire), run(hire)]
    for _ in range(20):
        enqueue(engine)
    moments: list[float] = []
    for step in range(160):
        moments += [clock.monotonic()] * len(run(claim_lane, engine, "narrow", workers[step % 2], 5))
        clock.advance(0.25)
    assert moments[:2] == [moments[0]] * 2
    assert all(later - earlier >= 10.0 for earlier, later in zip(moments, moments[4:], strict=False))
    assert len(moments) >= 12


def test_a_blocked_lane_waits_its_time(stopped_database: Database, clock: StoppedClock) -> None:
    engine = build_lane(stopped_database, max_running=5)
    run = stopped_database.run_blocking
    worker = run(hire)
    enqueue(engine)
    run(slow_lane, "narrow", 30.0)
    assert run(claim_lane, engine, "narrow", worker) == []
    clock.advance(29.9)
    assert run(claim_lane, engine, "narrow", worker) == []
    clock.advance(0.1)
    assert len(run(claim_lane, engine, "narrow", worker)) == 1


def test_a_lane_without_limits_can_be_blocked_too(stopped_database: Database, clock: StoppedClock) -> None:
    engine = build(stopped_database)
    run = stopped_database.run_blocking
    worker = run(hire)
    enqueue(engine)
    run(slow_lane, "default", 30.0)
    assert run(claim, engine, worker) == []
    [head] = run(engine.queue.heads)
    assert head.due_in == pytest.approx(30.0)
    clock.advance(30)
    assert len(run(claim, engine, worker)) == 1


@pytest.mark.parametrize(
    "outcome", [Retry("RATE_LIMITED", "429", after=20, slow_lane=True), Snooze(20, slow_lane=True)]
)
def test_an_outcome_can_slow_its_lane(stopped_database: Database, clock: StoppedClock, outcome: Outcome) -> None:
    engine = build_lane(stopped_database, spacing=1.0)
    run = stopped_database.run_blocking
    worker = run(hire)
    enqueue(engine)
    enqueue(engine)
    [job] = run(claim_lane, engine, "narrow", worker, 1)
    assert run(finish, engine, job, outcome)
    state = run(lane_view, "narrow").state
    assert state.blocked == pytest.approx(20)
    assert (state.slowdown, state.factor()) == (2.0, 2.0)
    clock.advance(10)
    assert run(claim_lane, engine, "narrow", worker) == []
    clock.advance(10)
    assert len(run(claim_lane, engine, "narrow", worker, 1)) == 1
    clock.advance(1.5)
    # Twice the spacing now, and as it was after a quiet minute.
    assert run(claim_lane, engine, "narrow", worker, 1) == []
    clock.advance(60)
    assert run(lane_view, "narrow").state.factor() == 1.0


def test_slowing_again_and_again_has_an_end(stopped_database: Database, clock: StoppedClock) -> None:
    build_lane(stopped_database, spacing=1.0)
    run = stopped_database.run_blocking
    for _ in range(10):
        run(slow_lane, "narrow", 1e9)
    state = run(lane_view, "narrow").state
    assert state.slowdown == 16.0
    assert state.blocked == pytest.approx(86_400)
    # A shorter wait does not cut a longer one short.
    run(slow_lane, "narrow", 1.0)
    assert run(lane_view, "narrow").state.blocked == pytest.approx(86_400)


def test_changed_limits_hold_at_once(stopped_database: Database, clock: StoppedClock) -> None:
    engine = build_lane(stopped_database, max_running=1)
    run = stopped_database.run_blocking
    worker = run(hire)
    for _ in range(4):
        enqueue(engine)
    assert len(run(claim_lane, engine, "narrow", worker)) == 1
    run(set_lane, Lane("narrow", max_running=3))
    assert len(run(claim_lane, engine, "narrow", worker)) == 2
    run(set_lane, Lane("narrow"))
    assert len(run(claim, engine, worker)) == 1


def test_a_clock_that_goes_back_an_hour_does_not_stop_the_lane(stopped_database: Database, clock: StoppedClock) -> None:
    clock.jump(3600)
    engine = build_lane(stopped_database, spacing=2.0)
    run = stopped_database.run_blocking
    worker = run(hire)
    enqueue(engine)
    assert len(run(claim_lane, engine, "narrow", worker, 1)) == 1
    clock.jump(-3600)
    enqueue(engine)
    assert run(claim_lane, engine, "narrow", worker, 1) == []
    clock.advance(2.5)
    assert len(run(claim_lane, engine, "narrow", worker, 1)) == 1


@pytest.mark.usefixtures("stale_claims")
def test_a_transaction_that_stood_still_claims_nothing_from_a_lane(postgresql_url: str) -> None:
    """By its time, permits that others were given since would lie ahead."""

    def look(tx: Transaction, sleep: float) -> bool:
        execute(tx, f"SELECT pg_sleep({sleep})")
        return lock_lane(tx, "narrow") is not None

    database = open_database(postgresql_url)
    try:
        database.run_blocking(declare_lanes, [Lane("narrow", max_running=1)])
        assert database.run_blocking(look, STALE_SECONDS) is False
        wait_for(lambda: database.run_blocking(look, 0.0), "a transaction that nothing held up")
    finally:
        database.close()


@pytest.mark.usefixtures("stale_claims")
@pytest.mark.parametrize("limits", [{"max_running": 2}, {"spacing": 0.1}])
async def test_real_workers_keep_the_limits(database: Database, limits: dict[str, float]) -> None:
    stage = Stage(database, lanes=[Lane("narrow", **limits)], lane="narrow")  # type: ignore[arg-type]
    await stage.start()
    starts: list[float] = []
    running = most = 0

    async def watch(_job: Job) -> Outcome:
        nonlocal running, most
        starts.append(time.monotonic())
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        return Done()

    stage.handler = watch
    for _ in range(10):
        await stage.enqueue()
    began_at = time.monotonic()
    async with stage.working(), stage.working():
        await stage.until(lambda: len(stage.settled) == 10)
    assert len(starts) == 10
    if "max_running" in limits:
        assert most <= 2
    else:
        # A busy machine may hold up any start: none can be earlier than so many spacings after the beginning.
        spacing = limits["spacing"]
        assert [place for place, start in enumerate(sorted(starts)) if start < began_at + place * spacing] == []
