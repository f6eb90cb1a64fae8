"""A worker's standing: heartbeats, what it is told by them, and going on after it was taken for dead."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from longtake import Database, Done, Outcome, Retry, Settlement
from longtake.engine.control import cancel
from longtake.engine.engine import Engine
from tests.engine.lives import LeapingClock, beats, until_beaten
from tests.engine.stage import (
    Stage,
    add_effect,
    attempts,
    claim,
    effects,
    ended,
    live,
    until_read,
    wait_stubbornly,
)
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake import Job, Transaction


def forget_workers(tx: Transaction) -> None:
    tx.execute(text("DELETE FROM workers"))


async def test_it_beats_while_it_lives_and_is_gone_afterwards(database: Database) -> None:
    stage = Stage(database)
    await stage.start()
    async with stage.working(heartbeat_seconds=0.01) as worker:
        await until_read(database, beats, lambda seen: seen.get(worker.id, 0) >= 3)
    assert await database.read(beats) == {}


async def test_it_beats_while_its_event_loop_is_blocked(database: Database) -> None:
    stage = Stage(database)
    await stage.start()
    blocked, beaten = threading.Event(), threading.Event()

    def watch() -> None:
        assert blocked.wait(PATIENCE_SECONDS)
        before = database.run_blocking(beats)
        while database.run_blocking(beats)[worker.id] < before[worker.id] + 3:
            pass
        beaten.set()

    async def block(_job: Job) -> Outcome:
        blocked.set()
        assert beaten.wait(PATIENCE_SECONDS)
        return Done()

    stage.handler = block
    async with stage.working(heartbeat_seconds=0.01) as worker:
        watching = asyncio.create_task(asyncio.to_thread(watch))
        await stage.enqueue()
        await stage.until(lambda: len(stage.settled) == 1)
        await watching


async def test_taken_for_dead_it_goes_on_as_a_new_worker(database: Database) -> None:
    stage = Stage(database)
    await stage.start()
    stopped = asyncio.Event()

    async def run_on(_job: Job) -> Outcome:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
        return Done(data="too late")

    stage.handler = run_on
    await stage.enqueue()
    async with stage.working(heartbeat_seconds=0.01, concurrency=1, lease_seconds=600.0) as worker:
        await stage.until(lambda: len(stage.started) == 1)
        before = worker.id

        async def finish_at_once(_job: Job) -> Outcome:
            return Done()

        stage.handler = finish_at_once
        await database.run(forget_workers)
        await asyncio.wait_for(stopped.wait(), PATIENCE_SECONDS)
        await until_read(database, beats, lambda seen: set(seen) == {worker.id})
        assert worker.id != before
        other = await stage.enqueue()
        await stage.until(lambda: other in {job for job, _outcome in stage.settled})
        assert (await database.read(ended, other)).worker == worker.id
    # The lost one is an orphan, and a rescuer's turn may have come: what its first run says counts in no case.
    assert not any(outcome.data == "too late" for _job, outcome in stage.settled)


@pytest.mark.parametrize("concurrency", [1, 5])
async def test_a_job_that_was_lost_leaves_room_for_the_next(database: Database, concurrency: int) -> None:
    """Cancelled by the domain, its row is gone: nothing is left to finish, and yet the worker must go on."""
    stage = Stage(database)
    await stage.start()
    gate = stage.gate()

    async def wait(_job: Job) -> Outcome:
        await gate.wait()
        return Done()

    stage.handler = wait
    clock = LeapingClock()
    stage.engine.clock = clock
    running = [await stage.enqueue() for _ in range(concurrency)]
    # A long poll: it is the loss itself that must wake the worker.
    async with stage.working(heartbeat_seconds=0.01, concurrency=concurrency, poll_seconds=3600.0):
        await stage.until(lambda: len(stage.started) == concurrency)
        waiting = await stage.enqueue()
        clock.leap += 5.0

        def cancel_all(tx: Transaction) -> None:
            for job_id in running:
                assert cancel(tx, job_id)

        await database.run(cancel_all)
        await stage.until(lambda: waiting in {job.id for job in stage.started})
        gate.set()
        await stage.until(lambda: len(stage.settled) == 1)
    assert stage.settled == [(waiting, Done())]


async def test_a_claim_whose_answer_was_lost_is_returned_unspent(database: Database) -> None:
    stage = Stage(database)
    await stage.start()
    clock = LeapingClock()
    stage.engine.clock = clock
    async with stage.working(heartbeat_seconds=0.01) as worker:
        job_id = await stage.enqueue(delay=3600)
        # Only a worker that is registered can claim.
        await until_beaten(database)

        def claim_behind_its_back(tx: Transaction) -> list[Job]:
            tx.execute(text("UPDATE jobs SET due_at = longtake_now()"))
            return claim(tx, stage.engine, worker.id)

        assert len(await database.run(claim_behind_its_back)) == 1
        # Seen once as a stranger, and again when the answer cannot come any more.
        await until_beaten(database)
        assert (await database.read(live, job_id)).state == "running"
        clock.leap += 60.0
        await stage.until(lambda: len(stage.settled) == 1)
    assert stage.started[0].attempt == 1
    assert [one.outcome for one in await database.read(attempts, job_id)] == ["done"]


@pytest.mark.parametrize("settle_fails", [False, True])
async def test_a_wedged_handler_loses_its_job_and_nothing_else(database: Database, settle_fails: bool) -> None:
    stage = Stage(database, time_limit=60.0)
    await stage.start()
    clock = LeapingClock()
    stage.engine.clock = clock
    end = stage.gate()

    async def ignore_everything(job: Job) -> Outcome:
        if job.args == "wedged":
            await wait_stubbornly(end)
        return Done()

    def settle(tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        for one in settlements:
            if settle_fails and isinstance(one.outcome, Retry):
                raise LookupError("the domain refuses")
            add_effect(tx, one.job.id, one.job.attempt)

    stage.handler, stage.settle = ignore_everything, settle
    job_id = await stage.enqueue("wedged")
    async with stage.working(heartbeat_seconds=0.01, stop_grace_seconds=0.0) as worker:
        await stage.until(lambda: len(stage.started) == 1)
        clock.leap += 71.0
        row = await until_read(
            database, lambda tx: live(tx, job_id), lambda row: row.attempt > 1 or row.error is not None
        )
        assert row.error["code"] == ("SETTLE_FAILED" if settle_fails else "CRASHED")
        # The worker itself is well: it beats, and runs other jobs.
        await until_beaten(database)
        other = await stage.enqueue()
        await stage.until(lambda: (other, Done()) in stage.settled)
        assert worker.id in await database.read(beats)
        end.set()
    # One effect for each run that counted, and none of the wedged run's own.
    numbers = [number for job, number in await database.read(effects) if job == job_id]
    assert len(numbers) == len(set(numbers))
