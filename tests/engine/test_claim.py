"""Claiming: by priority, then kinds take turns, then the longest due; never what is not due or not ours."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from longtake import Database, Engine, JobKind, JobRequest, Lane, Priority
from longtake.clock import new_id
from longtake.engine.claimer import ClaimTimer
from longtake.engine.queue import QueueName
from tests.engine.stage import KIND, build, claim, done, enqueue, hire, live

if TYPE_CHECKING:
    from longtake import Job, Transaction
    from tests.databases import StoppedClock


@pytest.fixture
def engine(stopped_database: Database) -> Engine:
    return build(stopped_database, JobKind(KIND, done), JobKind("other", done))


@pytest.fixture
def worker(engine: Engine) -> str:
    return engine.database.run_blocking(hire)


def test_a_claimed_job_has_a_lease_and_a_new_attempt(engine: Engine, worker: str, clock: StoppedClock) -> None:
    job_id = enqueue(engine, args={"page": 1}, subject="film", request_id="r")
    clock.advance(5)
    [job] = engine.database.run_blocking(claim, engine, worker)
    row = engine.database.run_blocking(live, job_id)
    assert (job.id, job.kind, job.args, job.subject, job.request_id) == (job_id, KIND, {"page": 1}, "film", "r")
    assert (job.attempt, job.max_attempts, job.crashes, job.alone) == (1, 5, 0, False)
    assert (row.state, row.worker, row.lease_token, row.attempt) == ("running", worker, job.lease_token, 1)
    assert row.started_at == clock.now()
    assert job.due_at == job.created_at == row.created_at


def test_what_is_claimed_is_not_claimed_again(engine: Engine, worker: str) -> None:
    ids = {enqueue(engine) for _ in range(5)}
    run = engine.database.run_blocking
    first = run(claim, engine, worker, 3)
    second = run(claim, engine, run(hire), 3)
    assert {job.id for job in first} | {job.id for job in second} == ids
    assert len(first) == 3
    assert run(claim, engine, worker) == []


def test_each_claim_has_a_token_of_its_own(engine: Engine, worker: str) -> None:
    enqueue(engine)
    enqueue(engine)
    run = engine.database.run_blocking
    tokens = {job.lease_token for _ in range(2) for job in run(claim, engine, worker, 1)}
    assert len(tokens) == 2


def test_a_job_waits_for_its_time(engine: Engine, worker: str, clock: StoppedClock) -> None:
    job_id = enqueue(engine, delay=60)
    run = engine.database.run_blocking
    assert run(claim, engine, worker) == []
    clock.advance(59.999)
    assert run(claim, engine, worker) == []
    clock.advance(0.001)
    assert [job.id for job in run(claim, engine, worker)] == [job_id]


def test_lower_priority_numbers_go_first_whenever_they_came(engine: Engine, worker: str, clock: StoppedClock) -> None:
    expected: list[str] = []
    for priority in (Priority.LOW, Priority.NORMAL, Priority.HIGH, Priority.TOP):
        expected.insert(0, enqueue(engine, priority=priority))
        clock.advance(1)
    run = engine.database.run_blocking
    assert [run(claim, engine, worker, 1)[0].id for _ in range(4)] == expected


def test_within_a_queue_the_longest_due_goes_first(engine: Engine, worker: str, clock: StoppedClock) -> None:
    ids = [enqueue(engine, delay=delay) for delay in (30, 10, 20, 0)]
    clock.advance(60)
    run = engine.database.run_blocking
    assert [run(claim, engine, worker, 1)[0].id for _ in range(4)] == [ids[3], ids[1], ids[2], ids[0]]


def test_a_batch_comes_in_the_order_of_priority_and_due_time(engine: Engine, worker: str, clock: StoppedClock) -> None:
    late = enqueue(engine)
    clock.advance(1)
    urgent = enqueue(engine, priority=Priority.TOP)
    other = enqueue(engine, "other")
    jobs = engine.database.run_blocking(claim, engine, worker)
    assert [job.id for job in jobs] == [urgent, late, other]


def test_kinds_of_one_priority_take_turns(engine: Engine, worker: str, clock: StoppedClock) -> None:
    """A thousand jobs of one kind do not keep another kind waiting."""
    many = JobRequest(KIND)
    engine.database.run_blocking(lambda tx: engine.enqueue_many(tx, [many] * 40))
    clock.advance(1)
    enqueue(engine, "other")
    timer = ClaimTimer(clock, 1.0, engine.kinds)

    def claim_next(tx: Transaction) -> list[Job]:
        return engine.exchange(tx, [], timer.queues(), worker, 10, False).jobs

    kinds = [{job.kind for job in engine.database.run_blocking(claim_next)} for _ in range(2)]
    assert {"other"} <= set().union(*kinds)


def test_turns_never_overrule_priority(clock: StoppedClock, engine: Engine) -> None:
    timer = ClaimTimer(
        clock, 1.0, {name: JobKind(name, done, priority=index % 3) for index, name in enumerate("abcdef")}
    )
    seen = [timer.queues() for _ in range(6)]
    for queues in seen:
        assert [queue.priority for queue in queues] == [0, 0, 1, 1, 2, 2]
    # Each kind is first among its equals in some round.
    for place, names in ((0, "ad"), (2, "be"), (4, "cf")):
        assert {queues[place].kind for queues in seen} == set(names)


def test_a_kind_this_process_does_not_know_is_left_alone(engine: Engine, worker: str) -> None:
    newer = build(engine.database, JobKind("newer", done))
    job_id = enqueue(newer, "newer")
    run = engine.database.run_blocking
    assert run(claim, engine, worker) == []
    assert run(live, job_id).attempt == 0
    assert [job.id for job in run(claim, newer, worker)] == [job_id]


def test_a_worker_that_is_not_registered_gets_nothing(engine: Engine) -> None:
    enqueue(engine)
    assert engine.database.run_blocking(claim, engine, new_id()) == []


def test_a_job_in_a_lane_of_its_own_is_found(stopped_database: Database) -> None:
    engine = build(stopped_database, lanes=[Lane("aside")])
    job_id = enqueue(engine, lane="aside", priority=Priority.LOW)
    run = stopped_database.run_blocking
    assert [job.id for job in run(claim, engine, run(hire))] == [job_id]


def test_heads_say_what_waits_and_until_when(engine: Engine, clock: StoppedClock) -> None:
    enqueue(engine, delay=60)
    enqueue(engine, delay=30)
    enqueue(engine, "other", priority=0)
    clock.advance(10)
    heads = {head.queue: head for head in engine.database.run_blocking(engine.queue.heads)}
    assert set(heads) == {QueueName("default", KIND, 2), QueueName("default", "other", 0)}
    sample = heads[QueueName("default", KIND, 2)]
    assert sample.due_in == pytest.approx(20)
    assert (sample.limited, sample.paused) == (False, False)
    assert heads[QueueName("default", "other", 0)].due_in == pytest.approx(-10)


def test_a_job_written_by_outside_sql_is_claimed(engine: Engine, worker: str, clock: StoppedClock) -> None:
    """A trigger or another program writes only what it must; the rest are the table's defaults."""
    engine.database.run_blocking(lambda tx: tx.execute(text("INSERT INTO jobs (kind, key) VALUES ('sample', 'out')")))
    clock.jump(10 * 365 * 86400)
    [job] = engine.database.run_blocking(claim, engine, worker)
    assert (job.key, job.args, job.lane, job.max_attempts) == ("out", {}, "default", 5)
    assert len(job.id) == 36


async def test_workers_that_claim_at_once_share_the_jobs(engine: Engine) -> None:
    await engine.database.run(lambda tx: engine.enqueue_many(tx, [JobRequest(KIND)] * 200))
    workers = [await engine.database.run(hire) for _ in range(8)]
    claims = await asyncio.gather(*(engine.database.run(claim, engine, one, 20) for one in workers * 3))
    claimed = [job.id for jobs in claims for job in jobs]
    assert len(claimed) == len(set(claimed))
    rest = await engine.database.run(claim, engine, workers[0], 200)
    assert len(claimed) + len(rest) == 200
