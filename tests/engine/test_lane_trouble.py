"""Jobs that wait because of their lane, and go on as soon as the trouble is over."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from longtake import Lane, Outcome, Retry, Snooze
from longtake.engine.lane_store import lane_view, pause_lane, resume_lane, wake_lane
from tests.engine.stage import build, claim, enqueue, finish, hire, live

if TYPE_CHECKING:
    from longtake import Database, Engine
    from tests.databases import StoppedClock

TROUBLE = Snooze(50, code="DOWN", message="503", lane_trouble=True)


@pytest.fixture
def engine(stopped_database: Database) -> Engine:
    return build(stopped_database, lanes=[Lane("remote"), Lane("another")])


def put_back(engine: Engine, outcome: Outcome) -> str:
    """Leave a job that ended a run so."""
    run = engine.database.run_blocking
    job_id = enqueue(engine, lane="remote")
    [job] = run(claim, engine, run(hire))
    assert run(finish, engine, job, outcome)
    return job_id


def wait_of(engine: Engine, clock: StoppedClock, job_id: str) -> float:
    return float((engine.database.run_blocking(live, job_id).due_at - clock.now()).total_seconds())


@pytest.mark.parametrize(
    "outcome", [Retry("DOWN", "503", after=20, block_lane=True), Snooze(20, code="DOWN", block_lane=True)]
)
def test_a_blocked_lane_waits_and_is_as_fast_as_before(engine: Engine, outcome: Outcome) -> None:
    """Trouble that says nothing about our pace must not change it."""
    put_back(engine, outcome)
    state = engine.database.run_blocking(lane_view, "remote").state
    assert state.blocked == pytest.approx(20)
    assert state.factor() == 1.0


@pytest.mark.parametrize("outcome", [TROUBLE, Retry("DOWN", "503", after=50, lane_trouble=True)])
def test_a_job_that_waits_because_of_its_lane_is_due_when_the_trouble_is_over(
    engine: Engine, clock: StoppedClock, outcome: Outcome
) -> None:
    job_id = put_back(engine, outcome)
    assert wait_of(engine, clock, job_id) == 50
    assert engine.database.run_blocking(wake_lane, "remote") == 1
    assert wait_of(engine, clock, job_id) == 0
    assert engine.database.run_blocking(wake_lane, "remote") == 0


@pytest.mark.parametrize("outcome", [Snooze(50), Snooze(50, code="BUSY"), Retry("NO_FILE", "not yet", after=50)])
def test_a_job_with_another_reason_to_wait_goes_on_waiting(
    engine: Engine, clock: StoppedClock, outcome: Outcome
) -> None:
    job_id = put_back(engine, outcome)
    assert engine.database.run_blocking(wake_lane, "remote") == 0
    assert wait_of(engine, clock, job_id) == 50


def test_a_reason_that_is_over_is_forgotten(engine: Engine, clock: StoppedClock) -> None:
    run = engine.database.run_blocking
    job_id = put_back(engine, TROUBLE)
    clock.advance(50)
    [job] = run(claim, engine, run(hire))
    assert run(finish, engine, job, Snooze(50))
    assert run(wake_lane, "remote") == 0
    assert wait_of(engine, clock, job_id) == 50


def test_other_lanes_go_on_waiting(engine: Engine, clock: StoppedClock) -> None:
    job_id = put_back(engine, TROUBLE)
    assert engine.database.run_blocking(wake_lane, "another") == 0
    assert wait_of(engine, clock, job_id) == 50


def test_jobs_are_woken_one_after_another_at_the_lanes_rate_and_none_later_than_it_was_due(
    stopped_database: Database, clock: StoppedClock
) -> None:
    engine, run = build(stopped_database, lanes=[Lane("paced")]), stopped_database.run_blocking
    worker, waits = run(hire), [40.0, 30.0, 20.0, 10.0, 0.7]
    ids = [enqueue(engine, lane="paced") for _ in waits]
    jobs = {job.id: job for job in run(claim, engine, worker)}
    for job_id, seconds in zip(ids, waits, strict=True):
        assert run(finish, engine, jobs[job_id], Snooze(seconds, code="DOWN", lane_trouble=True))
    build(stopped_database, lanes=[Lane("paced", rate=(2, 1.0))])
    assert run(wake_lane, "paced") == 5
    assert [wait_of(engine, clock, one) for one in ids] == [2.0, 1.5, 1.0, 0.5, 0.0]
    clock.advance(1.2)
    # One that is due is left alone; the others only come sooner.
    run(wake_lane, "paced")
    assert [wait_of(engine, clock, one) for one in ids] == pytest.approx([0.5, 0.0, -0.2, -0.7, -1.2])


def test_an_operator_who_resumes_a_lane_wakes_what_waits_for_it(engine: Engine, clock: StoppedClock) -> None:
    run = engine.database.run_blocking
    job_id, other = put_back(engine, TROUBLE), put_back(engine, Retry("NO_FILE", "not yet", after=50))
    run(pause_lane, "remote", "the key is wrong")
    clock.advance(5)
    run(resume_lane, "remote")
    assert [job.id for job in run(claim, engine, run(hire))] == [job_id]
    assert run(live, other).due_at == clock.now() + timedelta(seconds=45)
