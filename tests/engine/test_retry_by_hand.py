"""An operator lets a failed or cancelled job wait again; its history stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from longtake import Cancelled, Database, Done, Engine, Fail, JobKind, Outcome, Snooze
from longtake.clock import new_id
from longtake.engine.control import cancel, retry
from longtake.errors import NotFound, StateConflict
from tests.engine.stage import KIND, attempts, build, claim, done, ended, enqueue, event_types, finish, hire, live

if TYPE_CHECKING:
    from tests.databases import StoppedClock


@pytest.fixture
def engine(stopped_database: Database) -> Engine:
    return build(stopped_database, JobKind(KIND, done, max_attempts=1))


def end(engine: Engine, outcome: Outcome, **options: Any) -> str:
    run = engine.database.run_blocking
    job_id = enqueue(engine, args={"page": 1}, **options)
    [job] = run(claim, engine, run(hire))
    assert run(finish, engine, job, outcome)
    return job_id


@pytest.mark.parametrize("outcome", [Fail("BROKEN", "for good"), Cancelled()])
def test_it_waits_again_with_all_its_attempts(engine: Engine, clock: StoppedClock, outcome: Outcome) -> None:
    run = engine.database.run_blocking
    job_id = end(engine, outcome, key="k", subject="s", request_id="r")
    before = run(ended, job_id)
    clock.advance(60)
    told: list[str] = []
    unsubscribe = engine.database.signals.subscribe(told.append)
    run(retry, job_id)
    unsubscribe()
    assert "jobs" in told
    assert run(ended, job_id) is None
    row = run(live, job_id)
    assert (row.state, row.attempt, row.crashes, row.worker, row.alone) == ("ready", 0, 0, None, False)
    assert (row.args, row.key, row.subject, row.request_id) == ({"page": 1}, "k", "s", "r")
    assert (row.created_at, row.due_at, row.error) == (before.created_at, clock.now(), before.error)
    assert run(event_types, job_id)[-1] == "job.retried"
    clock.advance(1)
    [job] = run(claim, engine, run(hire))
    assert run(finish, engine, job, Done())
    assert run(ended, job_id).state == "done"
    first = "failed" if isinstance(outcome, Fail) else "cancelled"
    assert [one.outcome for one in run(attempts, job_id)] == [first, "done"]


def test_a_job_that_was_cancelled_before_it_ran_can_be_retried(engine: Engine) -> None:
    run = engine.database.run_blocking
    job_id = enqueue(engine)
    run(cancel, job_id)
    run(retry, job_id)
    assert [job.id for job in run(claim, engine, run(hire))] == [job_id]


def test_what_is_done_stays_done(engine: Engine) -> None:
    job_id = end(engine, Done())
    with pytest.raises(StateConflict, match=f"{job_id} is done"):
        engine.database.run_blocking(retry, job_id)
    assert engine.database.run_blocking(ended, job_id).state == "done"


def test_what_is_live_is_not_retried(engine: Engine) -> None:
    run = engine.database.run_blocking
    job_id = enqueue(engine)
    with pytest.raises(StateConflict, match=f"{job_id} is ready"):
        run(retry, job_id)
    [job] = run(claim, engine, run(hire))
    with pytest.raises(StateConflict, match=f"{job_id} is running"):
        run(retry, job_id)
    run(finish, engine, job, Snooze(5))
    with pytest.raises(StateConflict, match=f"{job_id} is ready"):
        run(retry, job_id)


def test_a_key_that_is_taken_again_is_refused_by_name(engine: Engine) -> None:
    job_id = end(engine, Fail("BROKEN", "for good"), key="film 7")
    twin = enqueue(engine, key="film 7")
    with pytest.raises(StateConflict) as raised:
        engine.database.run_blocking(retry, job_id)
    assert twin in raised.value.message
    assert "film 7" in raised.value.message
    assert engine.database.run_blocking(ended, job_id).state == "failed"


def test_what_never_was_cannot_be_retried(engine: Engine) -> None:
    unknown = new_id()
    with pytest.raises(NotFound, match=unknown):
        engine.database.run_blocking(retry, unknown)
