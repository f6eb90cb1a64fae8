"""The fence: what comes from a run that is no longer the job's own leaves no trace at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from longtake import (
    Cancelled,
    Database,
    Done,
    Engine,
    Fail,
    JobKind,
    JobRequest,
    Outcome,
    Retry,
    Settlement,
    Snooze,
    Steps,
)
from longtake.engine.control import cancel
from longtake.engine.lane_store import lane_view
from longtake.engine.leases import fenced, find_workers, remove_dead_workers
from longtake.engine.maintenance import rescue
from tests.engine.stage import KIND, add_effect, build, claim, done, effects, enqueue, finish, hire, live

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake import Job, Transaction


def write_effects(tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
    for one in settlements:
        if not isinstance(one.outcome, Retry) or one.outcome.code != "CRASHED":
            add_effect(tx, one.job.id, one.job.attempt)


@pytest.fixture
def engine(stopped_database: Database) -> Engine:
    kind = JobKind(KIND, done, write_effects, max_attempts=3, back_off=Steps([0]))
    return build(stopped_database, kind, JobKind("next", done))


@pytest.fixture
def stale(engine: Engine) -> Job:
    """A job as its first worker knows it; it was rescued and is run by another now."""
    run = engine.database.run_blocking
    enqueue(engine)
    [job] = run(claim, engine, run(hire))
    rescue_all(engine)
    [again] = run(claim, engine, run(hire))
    assert again.id == job.id
    assert again.lease_token != job.lease_token
    return job


def rescue_all(engine: Engine) -> None:
    run = engine.database.run_blocking
    seen, _orphans = run(find_workers)
    run(remove_dead_workers, seen)
    run(rescue, engine)


def everything(tx: Transaction) -> list[list[tuple[object, ...]]]:
    """Return all that finishing can change."""
    tables = ("jobs", "jobs_ended", "job_attempts", "events", "effects", "lanes")
    return [sorted(map(tuple, tx.execute(text(f"SELECT * FROM {table}"))), key=repr) for table in tables]


FOLLOW_UP = [JobRequest("next")]
OUTCOMES: list[Outcome] = [
    Done(then=FOLLOW_UP),
    Snooze(5, memo={"a": 1}, slow_lane=True, then=FOLLOW_UP),
    Retry("A", "b", memo={"a": 1}, slow_lane=True, then=FOLLOW_UP),
    Fail("A", "b", then=FOLLOW_UP),
    Cancelled(then=FOLLOW_UP),
]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_stale_outcome_changes_nothing(engine: Engine, stale: Job, outcome: Outcome) -> None:
    run = engine.database.run_blocking
    before = run(everything)
    assert not run(finish, engine, stale, outcome)
    assert run(everything) == before


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_an_outcome_after_the_end_changes_nothing(engine: Engine, outcome: Outcome) -> None:
    run = engine.database.run_blocking
    enqueue(engine)
    [job] = run(claim, engine, run(hire))
    assert run(finish, engine, job, Done())
    before = run(everything)
    assert not run(finish, engine, job, outcome)
    assert run(everything) == before


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_an_outcome_after_a_cancel_changes_nothing(engine: Engine, outcome: Outcome) -> None:
    run = engine.database.run_blocking
    enqueue(engine)
    [job] = run(claim, engine, run(hire))
    assert run(cancel, job.id)
    before = run(everything)
    assert not run(finish, engine, job, outcome)
    assert run(everything) == before


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_finish_that_is_repeated_has_its_effects_once(engine: Engine, outcome: Outcome) -> None:
    """As after a commit whose answer was lost."""
    run = engine.database.run_blocking
    enqueue(engine)
    [job] = run(claim, engine, run(hire))
    assert run(finish, engine, job, outcome)
    before = run(everything)
    assert not run(finish, engine, job, outcome)
    assert run(everything) == before
    assert run(effects) == [(job.id, 1)]


def test_a_stale_one_in_a_batch_does_not_harm_the_others(engine: Engine, stale: Job) -> None:
    run = engine.database.run_blocking
    enqueue(engine)
    enqueue(engine)
    first, second = run(claim, engine, run(hire))

    def finish_three(tx: Transaction) -> list[bool]:
        return [finish(tx, engine, job, Done()) for job in (first, stale, second)]

    assert run(finish_three) == [True, False, True]
    assert {job for job, _number in run(effects)} == {first.id, second.id}
    assert run(live, stale.id).state == "running"


def test_the_rescued_run_is_the_one_that_counts(engine: Engine, stale: Job) -> None:
    run = engine.database.run_blocking
    row = run(live, stale.id)
    assert (row.attempt, row.crashes) == (2, 1)
    assert not run(fenced, stale)
    stale.lease_token = row.lease_token
    assert run(fenced, stale)


def test_a_stale_slow_down_does_not_slow_the_lane(engine: Engine, stale: Job) -> None:
    run = engine.database.run_blocking
    run(finish, engine, stale, Retry("RATE_LIMITED", "slowly", after=60, slow_lane=True))
    assert run(lane_view, "default").state.blocked is None
