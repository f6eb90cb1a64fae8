"""Cancelling: waiting jobs at once, running ones promptly; the domain hears of it once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from longtake import Cancelled, Database, Done, Engine, JobKind, Outcome, Settlement
from longtake.clock import new_id
from longtake.engine.control import cancel, cancels_requested, carry_out_cancel, request_cancel, retry
from longtake.engine.maintenance import rescue
from longtake.errors import NotFound, StateConflict
from tests.engine.stage import (
    KIND,
    Stage,
    add_effect,
    attempts,
    build,
    claim,
    done,
    effects,
    ended,
    enqueue,
    event_types,
    execute,
    finish,
    hire,
    live,
    until_read,
    wait_stubbornly,
)
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake import Job, Transaction


def write_effects(tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
    for one in settlements:
        add_effect(tx, one.job.id, 1 if isinstance(one.outcome, Done) else 2)


@pytest.fixture
def engine(stopped_database: Database) -> Engine:
    return build(stopped_database, JobKind(KIND, done, write_effects))


def test_a_waiting_job_is_cancelled_in_the_callers_transaction(engine: Engine) -> None:
    run = engine.database.run_blocking
    job_id = enqueue(engine, delay=60, key="k")

    def cancel_then_fail(tx: Transaction) -> None:
        assert cancel(tx, job_id, "no longer wanted")
        raise LookupError

    with pytest.raises(LookupError):
        run(cancel_then_fail)
    assert run(live, job_id).state == "ready"
    assert run(cancel, job_id, "no longer wanted")
    row = run(ended, job_id)
    assert (row.state, row.attempt) == ("cancelled", 0)
    assert row.error == {"code": "CANCELLED", "message": "no longer wanted"}
    assert run(attempts, job_id) == []
    assert run(event_types, job_id) == ["job.cancelled"]
    # The caller does what the domain needs itself.
    assert run(effects) == []


def test_a_running_job_that_is_cancelled_has_its_attempt_remembered(engine: Engine) -> None:
    run = engine.database.run_blocking
    worker = run(hire)
    job_id = enqueue(engine)
    run(claim, engine, worker)
    assert run(cancel, job_id)
    [attempt] = run(attempts, job_id)
    assert (attempt.attempt, attempt.outcome, attempt.worker) == (1, "cancelled", worker)
    assert run(live, job_id) is None


def test_the_outcome_that_came_first_wins(engine: Engine) -> None:
    run = engine.database.run_blocking
    job_id = enqueue(engine)
    [job] = run(claim, engine, run(hire))
    assert run(finish, engine, job, Done())
    assert not run(cancel, job_id)
    assert not run(cancel, new_id())
    assert run(ended, job_id).state == "done"
    assert run(effects) == [(job_id, 1)]


def test_an_operators_cancel_of_a_waiting_job_is_settled_at_once(engine: Engine) -> None:
    run = engine.database.run_blocking
    job_id = enqueue(engine, delay=60)
    assert run(request_cancel, engine, job_id) == "cancelled"
    assert run(ended, job_id).state == "cancelled"
    assert run(effects) == [(job_id, 2)]


def test_a_kind_that_is_unknown_here_is_cancelled_by_a_process_that_knows_it(engine: Engine) -> None:
    run = engine.database.run_blocking
    command_line = Engine(engine.database)
    job_id = enqueue(engine, delay=60)
    assert run(request_cancel, command_line, job_id) == "requested"
    assert run(live, job_id).cancel_requested_at is not None
    assert run(cancels_requested, command_line) == []
    assert run(cancels_requested, engine) == [job_id]
    for _ in range(2):
        run(carry_out_cancel, engine, job_id)
        assert run(ended, job_id).state == "cancelled"
        assert run(effects) == [(job_id, 2)]
    assert run(cancels_requested, engine) == []


def test_a_request_outlives_the_worker_that_should_have_heard_it(stopped_database: Database) -> None:
    engine = build(stopped_database)
    run = stopped_database.run_blocking
    job_id = enqueue(engine)
    run(claim, engine, run(hire))
    assert run(request_cancel, engine, job_id) == "requested"
    assert run(cancels_requested, engine) == []
    run(execute, "DELETE FROM workers")
    assert run(rescue, engine) == 1
    assert run(cancels_requested, engine) == [job_id]
    run(carry_out_cancel, engine, job_id)
    assert run(ended, job_id).state == "cancelled"
    # Retried by hand, it is not cancelled again.
    run(retry, job_id)
    assert run(cancels_requested, engine) == []
    assert [job.id for job in run(claim, engine, run(hire))] == [job_id]


def test_what_has_ended_or_never_was_cannot_be_cancelled(engine: Engine) -> None:
    run = engine.database.run_blocking
    job_id = enqueue(engine)
    run(cancel, job_id)
    with pytest.raises(StateConflict, match=f"{job_id} is cancelled"):
        run(request_cancel, engine, job_id)
    unknown = new_id()
    with pytest.raises(NotFound, match=unknown):
        run(request_cancel, engine, unknown)


async def test_one_cancel_that_cannot_be_settled_does_not_hold_up_the_others(database: Database) -> None:
    stage = Stage(database)

    def settle(tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        if any(one.job.args == "bad" for one in settlements):
            raise LookupError("the domain refuses")
        write_effects(tx, _engine, settlements)

    stage.settle = settle
    await stage.start()
    bad = await stage.enqueue("bad", delay=60)
    good = [await stage.enqueue(delay=60) for _ in range(3)]
    command_line = Engine(database)
    for job_id in (bad, *good):
        assert await database.run(request_cancel, command_line, job_id) == "requested"
    async with stage.working():
        await stage.until(lambda: {job for job, _outcome in stage.settled} == set(good))
    assert (await database.read(live, bad)).state == "ready"


async def test_a_running_handler_is_stopped_promptly_and_settled(database: Database) -> None:
    stage = Stage(database)
    stage.settle = write_effects
    await stage.start()
    stopped = asyncio.Event()

    async def run_on(_job: Job) -> Outcome:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
            raise
        return Done()

    stage.handler = run_on
    job_id = await stage.enqueue()
    # The beat is far away: the signal must bring it.
    async with stage.working(heartbeat_seconds=3600.0):
        await stage.until(lambda: len(stage.started) == 1)
        assert await database.run(request_cancel, stage.engine, job_id) == "requested"
        await asyncio.wait_for(stopped.wait(), PATIENCE_SECONDS)
        await stage.until(lambda: len(stage.settled) == 1)
    assert stage.settled == [(job_id, Cancelled())]
    assert (await database.read(ended, job_id)).state == "cancelled"
    assert await database.read(effects) == [(job_id, 2)]


async def test_a_result_after_the_cancel_has_no_effect(database: Database) -> None:
    """The provider answers just after the domain has cancelled and given the credits back."""
    stage = Stage(database)
    stage.settle = write_effects
    await stage.start()
    gate = stage.gate()

    async def finish_late(_job: Job) -> Outcome:
        await wait_stubbornly(gate)
        return Done()

    stage.handler = finish_late
    job_id = await stage.enqueue()
    async with stage.working(heartbeat_seconds=0.05):
        await stage.until(lambda: len(stage.started) == 1)
        assert await database.run(cancel, job_id)
        gate.set()
        stage.handler = done
        other = await stage.enqueue()
        await stage.until(lambda: len(stage.settled) == 1)
    assert stage.settled == [(other, Done())]
    assert await database.read(effects) == [(other, 1)]
    assert (await database.read(ended, job_id)).state == "cancelled"


async def test_a_job_that_is_to_be_cancelled_is_not_begun(database: Database) -> None:
    """It was asked for by a process that does not know the kind, just before the claim."""
    stage = Stage(database)
    await stage.start()
    job_id = await stage.enqueue()
    await database.run(execute, "UPDATE jobs SET cancel_requested_at = longtake_now()")
    async with stage.working():
        await until_read(database, lambda tx: ended(tx, job_id), lambda row: row is not None)
    assert stage.started == []
    assert (await database.read(ended, job_id)).state == "cancelled"
