"""Stopping: what runs may finish within the grace, the rest is given back with no attempt spent; it never hangs."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from longtake import Cancelled, Database, Done, Lane, Outcome, Snooze, Worker
from longtake.engine import executor as executor_module
from longtake.engine import worker as worker_module
from longtake.engine.executor import StopReason
from longtake.engine.leases import find_workers, register_worker
from longtake.engine.queue import Claim
from tests.engine.stage import Stage, attempts, claim, live, wait_stubbornly
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from longtake import Job, Transaction


async def test_what_runs_finishes_within_the_grace(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    # No part of the worker may have to be given up on.
    monkeypatch.setattr(worker_module, "FLUSH_SECONDS", 3600.0)
    stage = Stage(database)
    await stage.start()
    gate = stage.gate()

    async def wait(_job: Job) -> Outcome:
        await gate.wait()
        return Done()

    stage.handler = wait
    ids = [await stage.enqueue() for _ in range(3)]
    async with stage.working() as worker:
        await stage.until(lambda: len(stage.started) == 3)
        worker.stop()
        later = await stage.enqueue()
        gate.set()
    assert {job for job, _outcome in stage.settled} == set(ids)
    assert (await database.read(live, later)).attempt == 0
    assert await database.read(find_workers) == ([], 0)


@pytest.mark.parametrize("stubborn", [False, True])
async def test_what_does_not_finish_is_given_back_unspent(
    database: Database, stubborn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_module, "LAST_SECONDS", 0.05)
    stage = Stage(database)
    await stage.start()
    end = stage.gate()

    async def run_on(_job: Job) -> Outcome:
        await (wait_stubbornly(end) if stubborn else end.wait())
        return Done()

    stage.handler = run_on
    job_id = await stage.enqueue()
    async with stage.working(stop_grace_seconds=0.01):
        await stage.until(lambda: len(stage.started) == 1)
    row = await database.read(live, job_id)
    assert (row.state, row.attempt, row.crashes, row.lease_token, row.worker) == ("ready", 0, 0, None, None)
    assert await database.read(attempts, job_id) == []
    # What a stubborn one still returns has no effect.
    end.set()
    assert stage.settled == []
    assert await database.read(find_workers) == ([], 0)


async def test_a_snooze_that_lingers_is_written_at_the_stop(database: Database) -> None:
    stage = Stage(database)
    await stage.start()
    stage.handler = stage.returning(Snooze(3600, memo="kept"))
    job_id = await stage.enqueue()
    async with stage.working() as worker:
        await stage.until(lambda: len(stage.started) == 1)
        worker.stop()
    row = await database.read(live, job_id)
    assert (row.state, row.memo, row.snoozes) == ("ready", "kept", 1)


async def test_a_claim_whose_answer_comes_after_the_stop_is_given_back(database: Database) -> None:
    stage = Stage(database)
    await stage.start()
    claiming, answer = threading.Event(), threading.Event()
    exchange = stage.engine.exchange

    def slow_exchange(tx: Transaction, *arguments: Any) -> Claim:
        found = exchange(tx, *arguments)
        if found.jobs:
            claiming.set()
            assert answer.wait(PATIENCE_SECONDS)
        return found

    async def never_end(_job: Job) -> Outcome:
        await asyncio.Event().wait()
        return Done()

    stage.engine.exchange = slow_exchange  # type: ignore[method-assign,assignment]
    stage.handler = never_end
    job_id = await stage.enqueue()
    # With a grace this long, a handler that was begun after the stop would hold it up.
    async with stage.working(stop_grace_seconds=3600.0) as worker:
        assert await asyncio.to_thread(claiming.wait, 20)
        worker.stop()
        await asyncio.sleep(0)
        answer.set()
    row = await database.read(live, job_id)
    assert (row.state, row.attempt) == ("ready", 0)


async def test_what_a_limited_lane_gives_after_the_stop_is_given_back_too(database: Database) -> None:
    """Whoever writes what is given back must still be there: else the job would count as one that killed its worker."""
    stage = Stage(database, lanes=[Lane("slow", max_running=1)], lane="slow")
    await stage.start()
    claiming, answer = threading.Event(), threading.Event()
    claim_lane = stage.engine.claim_lane

    def slow_claim(tx: Transaction, *arguments: Any) -> Claim:
        found = claim_lane(tx, *arguments)
        if found.jobs:
            claiming.set()
            assert answer.wait(PATIENCE_SECONDS)
        return found

    stage.engine.claim_lane = slow_claim  # type: ignore[method-assign,assignment]
    job_id = await stage.enqueue()
    async with stage.working() as worker:
        assert await asyncio.to_thread(claiming.wait, 20)
        pumps = [one for one in asyncio.all_tasks() if getattr(one.get_coro(), "__qualname__", "") == "Claimer._pump"]
        assert pumps
        worker.stop()
        gone, _there = await asyncio.wait(pumps, timeout=0.3)
        answer.set()
    assert gone == set()
    row = await database.read(live, job_id)
    assert (row.state, row.attempt, row.crashes, row.worker) == ("ready", 0, 0, None)
    assert await database.read(find_workers) == ([], 0)


async def test_a_job_that_waits_for_its_permit_is_given_back(database: Database) -> None:
    stage = Stage(database, lanes=[Lane("slow", rate=(20, 1.0))], lane="slow")
    await stage.start()
    ids = [await stage.enqueue() for _ in range(30)]
    async with stage.working() as worker:
        await stage.until(lambda: len(stage.started) >= 1)
        worker.stop()
    rows = [await database.read(live, job_id) for job_id in ids]
    waiting = [row for row in rows if row is not None]
    assert all((row.state, row.attempt) == ("ready", 0) for row in waiting)
    assert len(waiting) + len(stage.settled) == 30


def settled(stage: Stage, enough: int) -> bool:
    return len(stage.settled) >= enough


async def test_many_jobs_in_all_stages_survive_a_stop(database: Database) -> None:
    """Stopped at an arbitrary moment under load: each job is done once or waits unspent."""
    stage = Stage(database)
    await stage.start()
    ids = [await stage.enqueue() for _ in range(300)]
    for enough in (1, 40, 80, 120):
        async with stage.working():
            await stage.until(partial(settled, stage, enough))
    async with stage.working():
        await stage.until(lambda: len(stage.settled) == 300)
    assert sorted(job for job, _outcome in stage.settled) == sorted(ids)
    for job_id in ids:
        assert [one.outcome for one in await database.read(attempts, job_id)] == ["done"]


async def test_a_handler_that_is_stopped_before_its_first_step_is_concluded(database: Database) -> None:
    """Claimed and cancelled within one step of the event loop: its task has not begun yet."""
    stage = Stage(database)
    await stage.start()
    await stage.enqueue()
    worker = Worker(stage.engine)
    await database.run(register_worker, worker.id, "by hand", database.incarnation, 30.0)
    worker.executor.take(Claim(await database.run(claim, stage.engine, worker.id)), 0.0)
    [one] = worker.executor.all()
    one.stop(StopReason.CANCELLED)
    assert one.task is not None
    await asyncio.wait([one.task])
    assert len(worker.executor) == 0
    assert [verdict.outcome for verdict in worker.completer.take()] == [Cancelled()]
    assert stage.started == []


async def test_a_worker_that_cannot_go_on_says_so(database: Database) -> None:
    """A part that dies by a mistake of ours must not leave a worker that looks alive and does nothing."""
    stage = Stage(database)
    await stage.start()

    def broken(*_arguments: Any) -> Claim:
        raise ZeroDivisionError

    stage.engine.exchange = broken  # type: ignore[method-assign,assignment]
    worker = Worker(stage.engine)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(worker.run(), PATIENCE_SECONDS)
    assert await database.read(find_workers) == ([], 0)
