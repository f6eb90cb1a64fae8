"""Every outcome, as it stands in the tables afterwards. Time stands still."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from longtake import Cancelled, Database, Done, Engine, Fail, JobKind, JobRequest, Outcome, Retry, Snooze, Steps
from longtake.engine.outcomes import judge
from tests.engine.stage import KIND, attempts, build, claim, done, ended, enqueue, event_types, finish, hire, live

if TYPE_CHECKING:
    from longtake import Job
    from tests.databases import StoppedClock


@pytest.fixture
def engine(stopped_database: Database) -> Engine:
    kind = JobKind(KIND, done, max_attempts=3, back_off=Steps([10, 20]))
    return build(stopped_database, kind, JobKind("next", done, priority=1))


@pytest.fixture
def worker(engine: Engine) -> str:
    return engine.database.run_blocking(hire)


def run_once(engine: Engine, worker: str, outcome: Outcome) -> Job:
    """Claim the only due job and finish it so."""
    [job] = engine.database.run_blocking(claim, engine, worker)
    assert engine.database.run_blocking(finish, engine, job, outcome, worker)
    return job


ENDS: list[tuple[Outcome, str, dict[str, str] | None]] = [
    (Done(data="ignored"), "done", None),
    (Fail("NO_FILE", "it is gone"), "failed", {"code": "NO_FILE", "message": "it is gone"}),
    (Cancelled("no longer wanted"), "cancelled", {"code": "CANCELLED", "message": "no longer wanted"}),
]


@pytest.mark.parametrize(("outcome", "state", "error"), ENDS)
def test_a_job_that_ends_moves_to_the_history(
    engine: Engine, worker: str, clock: StoppedClock, outcome: Outcome, state: str, error: dict[str, str] | None
) -> None:
    job_id = enqueue(engine, args={"page": 1}, key="k", subject="s", request_id="r")
    clock.advance(1)
    [job] = engine.database.run_blocking(claim, engine, worker)
    clock.advance(2)
    assert engine.database.run_blocking(finish, engine, job, outcome, worker)
    run = engine.database.run_blocking
    assert run(live, job_id) is None
    row = run(ended, job_id)
    assert (row.state, row.error, row.attempt, row.worker) == (state, error, 1, worker)
    assert (row.args, row.key, row.subject, row.request_id) == ({"page": 1}, "k", "s", "r")
    assert row.ended_at == clock.now()
    assert row.started_at == clock.now() - timedelta(seconds=2)
    assert row.created_at == clock.now() - timedelta(seconds=3)
    [attempt] = run(attempts, job_id)
    assert (attempt.attempt, attempt.outcome, attempt.worker, attempt.error) == (1, state, worker, error)
    assert (attempt.started_at, attempt.ended_at) == (row.started_at, row.ended_at)
    assert run(event_types, job_id) == [f"job.{state}"]


def test_a_retry_waits_and_keeps_its_attempts(engine: Engine, worker: str, clock: StoppedClock) -> None:
    job_id = enqueue(engine)
    run_once(engine, worker, Retry("BUSY", "come back"))
    row = engine.database.run_blocking(live, job_id)
    assert (row.state, row.attempt, row.lease_token, row.worker) == ("ready", 1, None, None)
    assert row.error == {"code": "BUSY", "message": "come back"}
    assert row.due_at == clock.now() + timedelta(seconds=10)
    clock.advance(10)
    run_once(engine, worker, Retry("BUSY", "come back"))
    assert engine.database.run_blocking(live, job_id).due_at == clock.now() + timedelta(seconds=20)
    assert engine.database.run_blocking(event_types, job_id) == ["job.retrying", "job.retrying"]


def test_the_last_attempt_that_fails_is_the_end(engine: Engine, worker: str, clock: StoppedClock) -> None:
    job_id = enqueue(engine)
    for _ in range(3):
        clock.advance(60)
        run_once(engine, worker, Retry("BUSY", "come back"))
    run = engine.database.run_blocking
    assert run(live, job_id) is None
    row = run(ended, job_id)
    assert (row.state, row.attempt, row.error) == ("failed", 3, {"code": "BUSY", "message": "come back"})
    timeline = run(attempts, job_id)
    assert [(one.attempt, one.outcome) for one in timeline] == [(1, "retry"), (2, "retry"), (3, "failed")]
    assert [one.worker for one in timeline] == [worker] * 3
    assert run(event_types, job_id) == ["job.retrying", "job.retrying", "job.failed"]


def test_settle_hears_a_fail_when_the_attempts_are_spent(engine: Engine) -> None:
    """The engine's own verdict reaches the domain, with what the last run carried."""
    job_id = enqueue(engine)
    [job] = engine.database.run_blocking(claim, engine, engine.database.run_blocking(hire))
    job.attempt = job.max_attempts
    verdict = judge(engine.kinds[KIND], job, Retry("BUSY", "no", data={"any": 1}), "w", random.Random(1))
    assert verdict.outcome == Fail("BUSY", "no", data={"any": 1})
    assert verdict.job.id == job_id


def test_a_snooze_gives_back_the_attempt_that_its_claim_counted(
    engine: Engine, worker: str, clock: StoppedClock
) -> None:
    job_id = enqueue(engine)
    run_once(engine, worker, Retry("BUSY", "come back"))
    clock.advance(10)
    run_once(engine, worker, Snooze(30))
    run = engine.database.run_blocking
    row = run(live, job_id)
    assert (row.state, row.attempt, row.crashes, row.snoozes, row.error) == ("ready", 1, 0, 1, None)
    assert row.due_at == clock.now() + timedelta(seconds=30)
    assert [one.outcome for one in run(attempts, job_id)] == ["retry"]
    assert run(event_types, job_id) == ["job.retrying"]
    for _ in range(50):
        clock.advance(30)
        run_once(engine, worker, Snooze(30))
    assert run(live, job_id).snoozes == 51


def test_a_snooze_between_failures_does_not_make_them_more(engine: Engine, worker: str, clock: StoppedClock) -> None:
    """However often it waits, a job has its attempts and no more."""
    job_id = enqueue(engine)
    for _ in range(2):
        run_once(engine, worker, Retry("BUSY", "come back"))
        clock.advance(20)
        run_once(engine, worker, Snooze(30))
        clock.advance(30)
    run_once(engine, worker, Retry("BUSY", "come back"))
    run = engine.database.run_blocking
    assert run(ended, job_id).state == "failed"
    assert [(one.attempt, one.outcome) for one in run(attempts, job_id)] == [(1, "retry"), (2, "retry"), (3, "failed")]


def test_a_snooze_after_progress_forgives_the_past(engine: Engine, worker: str, clock: StoppedClock) -> None:
    """Long work in many runs is limited by its failures in one place, not by its length."""
    job_id = enqueue(engine)
    for _ in range(10):
        run_once(engine, worker, Retry("BUSY", "come back"))
        clock.advance(20)
        run_once(engine, worker, Snooze(0, progress=True))
    row = engine.database.run_blocking(live, job_id)
    assert (row.state, row.attempt, row.crashes, row.snoozes) == ("ready", 0, 0, 10)


def test_a_snooze_can_say_why(engine: Engine, worker: str) -> None:
    job_id = enqueue(engine)
    run_once(engine, worker, Snooze(30, code="REMOTE_DOWN", message="503"))
    assert engine.database.run_blocking(live, job_id).error == {"code": "REMOTE_DOWN", "message": "503"}


def test_a_negative_snooze_is_due_at_once(engine: Engine, worker: str, clock: StoppedClock) -> None:
    job_id = enqueue(engine)
    run_once(engine, worker, Snooze(-5))
    assert engine.database.run_blocking(live, job_id).due_at == clock.now()


@pytest.mark.parametrize("returned", [None, "done", 7, {"ok": True}, ("DONE",), Done])
def test_what_is_not_an_outcome_fails_with_a_clear_code(engine: Engine, worker: str, returned: Any) -> None:
    job_id = enqueue(engine)
    run_once(engine, worker, returned)
    row = engine.database.run_blocking(ended, job_id)
    assert (row.state, row.error["code"]) == ("failed", "NOT_AN_OUTCOME")
    assert type(returned).__name__ in row.error["message"]


@pytest.mark.parametrize("outcome", [Snooze(1), Retry("A", "b")])
def test_a_memo_is_kept_until_it_is_replaced_or_cleared(
    engine: Engine, worker: str, clock: StoppedClock, outcome: Snooze | Retry
) -> None:
    def again(**memo: Any) -> Any:
        clock.advance(60)
        job = run_once(engine, worker, type(outcome)(*_positions(outcome), **memo))
        seen.append(job.memo)
        # A snooze in between, so that attempts do not run out.
        clock.advance(60)
        run_once(engine, worker, Snooze(1, progress=True))

    seen: list[Any] = []
    enqueue(engine)
    again(memo={"remote": "task 1"})
    again()
    again(memo=["another", None])
    again(memo=None)
    again()
    assert seen == [None, {"remote": "task 1"}, {"remote": "task 1"}, ["another", None], None]


def _positions(outcome: Snooze | Retry) -> tuple[Any, ...]:
    return (outcome.seconds,) if isinstance(outcome, Snooze) else (outcome.code, outcome.message)


@pytest.mark.parametrize(
    "outcome",
    [
        Done(then=[JobRequest("next", {"n": 1}), JobRequest("next", {"n": 2}, delay=5)]),
        Snooze(5, then=[JobRequest("next", {"n": 1}), JobRequest("next", {"n": 2}, delay=5)]),
        Retry("A", "b", then=[JobRequest("next", {"n": 1}), JobRequest("next", {"n": 2}, delay=5)]),
        Fail("A", "b", then=[JobRequest("next", {"n": 1}), JobRequest("next", {"n": 2}, delay=5)]),
        Cancelled(then=[JobRequest("next", {"n": 1}), JobRequest("next", {"n": 2}, delay=5)]),
    ],
)
def test_follow_ups_are_enqueued_with_the_outcome(
    engine: Engine, worker: str, clock: StoppedClock, outcome: Outcome
) -> None:
    enqueue(engine)
    run_once(engine, worker, outcome)
    run = engine.database.run_blocking
    assert [job.args for job in run(claim, engine, worker)] == [{"n": 1}]
    clock.advance(5)
    assert {"n": 2} in [job.args for job in run(claim, engine, worker)]


def test_long_error_texts_are_cut_and_strange_ones_kept(engine: Engine, worker: str) -> None:
    job_id = enqueue(engine)
    run_once(engine, worker, Fail("LONG", "ü\0" + "x" * 5000))
    message = engine.database.run_blocking(ended, job_id).error["message"]
    assert message == "ü\ufffd" + "x" * 1998


def test_an_error_with_half_a_character_is_retried_like_any_other(engine: Engine, worker: str) -> None:
    """Names of files that are not UTF-8 have them."""
    job_id = enqueue(engine)
    run_once(engine, worker, Retry("NO_FILE", "caf\udce9.png is not there"))
    assert engine.database.run_blocking(live, job_id).error["message"] == "caf?.png is not there"
