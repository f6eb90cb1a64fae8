"""Real workers: what handlers do, and what becomes of it."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from longtake import Database, Done, Engine, Fail, Job, JobKind, JobRequest, Lane, Outcome, Retry, Snooze, Steps
from longtake.engine.executor import RunningJob
from longtake.errors import NotFound
from tests.engine.stage import (
    KIND,
    Stage,
    attempts,
    done,
    ended,
    hire,
    live,
    until_read,
)


async def test_a_job_from_enqueue_to_done(database: Database) -> None:
    stage = Stage(database)
    await stage.start()
    async with stage.working() as worker:
        job_id = await stage.enqueue({"page": 1})
        await stage.until(lambda: len(stage.settled) == 1)
        assert stage.settled == [(job_id, Done())]
        assert (await database.read(ended, job_id)).worker == worker.id
    assert stage.started[0].args == {"page": 1}


async def test_an_exception_is_a_surprise_and_tried_again(database: Database) -> None:
    stage = Stage(database, back_off=Steps([0]))
    await stage.start()
    failures = iter([ValueError("what is that?"), None])

    async def fail_once(_job: Job) -> Outcome:
        if error := next(failures):
            raise error
        return Done()

    stage.handler = fail_once
    job_id = await stage.enqueue()
    async with stage.working():
        await stage.until(lambda: len(stage.settled) == 2)
    assert stage.settled[0][1] == Retry("UNEXPECTED", "ValueError: what is that?")
    first, second = await database.read(attempts, job_id)
    assert (first.outcome, first.error["code"], second.outcome) == ("retry", "UNEXPECTED", "done")


async def test_an_error_of_our_own_keeps_its_code(database: Database) -> None:
    stage = Stage(database, max_attempts=1)
    await stage.start()

    async def not_there(_job: Job) -> Outcome:
        raise NotFound("There is no film 7.")

    stage.handler = not_there
    await stage.enqueue()
    async with stage.working():
        await stage.until(lambda: len(stage.settled) == 1)
    assert stage.settled[0][1] == Fail("NOT_FOUND", "NotFound: There is no film 7.")


async def test_a_handler_that_raises_a_cancellation_of_its_own_is_a_surprise_too(database: Database) -> None:
    """It awaited something that was cancelled. Giving the job back unspent would repeat that for ever."""
    stage = Stage(database, max_attempts=2, back_off=Steps([0]))
    await stage.start()

    async def await_the_cancelled(_job: Job) -> Outcome:
        task = asyncio.create_task(asyncio.Event().wait())
        task.cancel()
        await task
        return Done()

    stage.handler = await_the_cancelled
    await stage.enqueue()
    async with stage.working():
        await stage.until(lambda: len(stage.settled) == 2)
    assert [outcome.code for _job, outcome in stage.settled] == ["UNEXPECTED", "UNEXPECTED"]  # type: ignore[attr-defined]
    assert len(stage.started) == 2


@pytest.mark.parametrize(
    "returned",
    [
        None,
        {"status": "done"},
        Snooze(1, memo={"file": object()}),
        Snooze("soon"),  # type: ignore[arg-type]
        Retry("A", None),  # type: ignore[arg-type]
        Retry("A", "b", after="later"),  # type: ignore[arg-type]
    ],
)
async def test_what_is_not_an_outcome_fails_the_job_and_not_the_worker(database: Database, returned: Any) -> None:
    stage = Stage(database)
    await stage.start()
    stage.handler = stage.returning(returned, Done())
    job_id = await stage.enqueue()
    async with stage.working():
        await stage.until(lambda: len(stage.settled) == 1)
        assert isinstance(stage.settled[0][1], Fail)
        assert (await database.read(ended, job_id)).error["code"] == "NOT_AN_OUTCOME"
        await stage.enqueue()
        await stage.until(lambda: len(stage.settled) == 2)


async def test_a_time_limit_ends_the_attempt(database: Database) -> None:
    stage = Stage(database, time_limit=0.05, max_attempts=1)
    await stage.start()
    stopped = asyncio.Event()

    async def never_end(_job: Job) -> Outcome:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return Done()

    stage.handler = never_end
    job_id = await stage.enqueue()
    async with stage.working():
        await stage.until(lambda: len(stage.settled) == 1)
    assert stopped.is_set()
    error = (await database.read(ended, job_id)).error
    assert error == {"code": "TIME_LIMIT", "message": "It took longer than its time limit of 0.05 s."}


async def test_a_time_out_inside_a_handler_is_not_its_time_limit(database: Database) -> None:
    stage = Stage(database, max_attempts=1)
    await stage.start()

    async def time_out(_job: Job) -> Outcome:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
        return Done()

    stage.handler = time_out
    await stage.enqueue()
    async with stage.working():
        await stage.until(lambda: len(stage.settled) == 1)
    assert stage.settled[0][1].code == "UNEXPECTED"  # type: ignore[attr-defined]


async def test_snoozes_go_on_until_done_and_remember(database: Database) -> None:
    stage = Stage(database)
    await stage.start()

    async def count_to_five(job: Job) -> Outcome:
        number = (job.memo or 0) + 1
        return Done(data=number) if number == 5 else Snooze(0, memo=number)

    stage.handler = count_to_five
    job_id = await stage.enqueue()
    async with stage.working():
        await stage.until(lambda: any(isinstance(outcome, Done) for _job, outcome in stage.settled))
    assert stage.settled[-1] == (job_id, Done(data=5))
    row = await database.read(ended, job_id)
    assert (row.attempt, row.snoozes, row.memo) == (1, 4, 4)
    assert len(await database.read(attempts, job_id)) == 1


@pytest.mark.parametrize("lane", ["default", "narrow"])
@pytest.mark.parametrize("seconds", [0.0, 0.05])
async def test_a_short_snooze_does_not_wait_for_the_next_poll(database: Database, lane: str, seconds: float) -> None:
    """Nobody tells of a job that was put back; one page after another would take a poll interval each."""
    stage = Stage(database, lanes=[Lane("narrow", max_running=1)], lane=lane)
    await stage.start()

    async def count_to_five(job: Job) -> Outcome:
        number = (job.memo or 0) + 1
        return Done(data=number) if number == 5 else Snooze(seconds, memo=number)

    stage.handler = count_to_five
    await stage.enqueue()
    async with stage.working(poll_seconds=1_000.0):
        await stage.until(lambda: any(isinstance(outcome, Done) for _job, outcome in stage.settled))
    assert stage.settled[-1][1] == Done(data=5)


async def test_follow_ups_run_when_their_job_is_done(database: Database) -> None:
    stage = Stage(database)
    await stage.start()

    async def chain(job: Job) -> Outcome:
        left = job.args["left"]
        return Done(then=[JobRequest(KIND, {"left": left - 1})] if left else [])

    stage.handler = chain
    await stage.enqueue({"left": 9})
    async with stage.working():
        await stage.until(lambda: len(stage.settled) == 10)
    assert [job.args["left"] for job in stage.started] == list(range(9, -1, -1))


async def test_a_kind_it_does_not_know_is_left_for_one_that_does(database: Database) -> None:
    stage = Stage(database)
    await stage.start()
    newer = Engine(database, [stage.kind, JobKind("newer", done)])
    await newer.start()
    job_id = (await database.run(lambda tx: newer.enqueue(tx, "newer"))).id
    async with stage.working():
        await stage.enqueue()
        await stage.until(lambda: len(stage.settled) == 1)
        assert (await database.read(live, job_id)).attempt == 0
        async with stage.working(newer):
            await until_read(database, lambda tx: ended(tx, job_id), lambda row: row is not None)


async def test_no_more_run_at_once_than_the_worker_may(database: Database) -> None:
    stage = Stage(database)
    await stage.start()
    gate = stage.gate()

    async def wait(_job: Job) -> Outcome:
        await gate.wait()
        return Done()

    stage.handler = wait
    for _ in range(8):
        await stage.enqueue()
    async with stage.working(concurrency=3) as worker:
        await stage.until(lambda: len(stage.started) == 3)
        assert worker.claimer.room() == 0
        # Whatever it hears, it takes no more.
        worker.timer.wake()
        await database.run(hire)
        assert len(stage.started) == 3
        gate.set()
        await stage.until(lambda: len(stage.settled) == 8)


def jobs_in_memory() -> int:
    return sum(type(one) in {Job, RunningJob} for one in gc.get_objects())


async def test_a_job_that_has_ended_is_not_left_to_the_garbage_collector(database: Database) -> None:
    """A reference cycle in each job cost a worker a fifth of its rate."""
    stage = Stage(database)
    await stage.start()
    gc.collect()
    before = jobs_in_memory()
    gc.disable()
    try:
        async with stage.working():
            for _ in range(5):
                await stage.enqueue()
            await stage.until(lambda: len(stage.settled) == 5)
        stage.started.clear()
        assert jobs_in_memory() <= before
    finally:
        gc.enable()
