"""A permit is for the start of the call: whoever is too late gives the job back, with nothing spent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from longtake import Database, Done, Lane, Worker
from longtake.engine.claims import Claim
from longtake.engine.leases import register_worker
from longtake.engine.queue import PutBack
from tests.engine.stage import Stage, claim_lane

if TYPE_CHECKING:
    from longtake import Job, Outcome
    from longtake.engine.verdicts import Verdict


async def claimed(database: Database, stage: Stage) -> tuple[Worker, Claim]:
    """Return a worker that does not run, and a claim with a permit in its name."""
    await stage.start()
    await stage.enqueue()
    worker = Worker(stage.engine)
    await database.run(register_worker, worker.id, "by hand", database.incarnation, 30.0)
    jobs = await database.run(claim_lane, stage.engine, "slow", worker.id, 1)
    assert len(jobs) == 1
    return worker, Claim(jobs, starts=[0.0], lifetime=0.2)


async def conclude(worker: Worker) -> list[Verdict]:
    running = [one.task for one in worker.executor.all() if one.task is not None]
    if running:
        await asyncio.wait(running)
    return worker.completer.take()


@pytest.fixture
def slow() -> list[Lane]:
    return [Lane("slow", spacing=5.0)]


async def test_on_time_it_is_begun(database: Database, slow: list[Lane]) -> None:
    stage = Stage(database, lanes=slow, lane="slow")
    worker, claim = await claimed(database, stage)
    taken_at = stage.engine.clock.monotonic()
    worker.executor.take(claim, taken_at)
    await conclude(worker)
    assert len(stage.started) == 1
    # A handler that has to read before it calls can see by this that it has become too late since.
    assert claim.jobs[0].permitted_until == taken_at + 0.2


async def test_too_late_it_is_given_back_unspent(database: Database, slow: list[Lane]) -> None:
    """Lateness counts from before the claim was sent: a slow answer is late as well."""
    stage = Stage(database, lanes=slow, lane="slow")
    worker, claim = await claimed(database, stage)
    worker.executor.take(claim, stage.engine.clock.monotonic() - 0.3)
    [verdict] = await conclude(worker)
    assert stage.started == []
    assert len(worker.executor) == 0
    assert verdict.outcome is None
    assert isinstance(verdict.change, PutBack)
    assert (verdict.change.attempt, verdict.change.delay, verdict.change.outcome) == (0, 0.0, None)


async def test_its_time_has_to_come(database: Database, slow: list[Lane]) -> None:
    stage = Stage(database, lanes=slow, lane="slow")
    worker, claim = await claimed(database, stage)
    now = stage.engine.clock.monotonic()
    worker.executor.take(Claim(claim.jobs, starts=[0.05], lifetime=10.0, counted_from=now), now)
    [one] = worker.executor.all()
    assert one.task is None
    await stage.until(lambda: len(stage.started) == 1)
    assert stage.engine.clock.monotonic() - now >= 0.05


async def test_what_prepares_is_begun_at_once_and_waits_for_its_time_itself(
    database: Database, slow: list[Lane]
) -> None:
    stage = Stage(database, lanes=slow, lane="slow", prepares=True)
    clock = stage.engine.clock
    asked: list[tuple[bool, float]] = []

    async def read_and_ask(job: Job) -> Outcome:
        asked.append((await job.wait_for_permit(clock), clock.monotonic()))
        return Done()

    stage.handler = read_and_ask
    worker, claim = await claimed(database, stage)
    now = clock.monotonic()
    worker.executor.take(Claim(claim.jobs, starts=[0.05], lifetime=10.0, counted_from=now), now)
    [one] = worker.executor.all()
    assert one.task is not None
    await conclude(worker)
    [(permitted, asked_at)] = asked
    assert permitted
    assert asked_at >= now + 0.05


async def test_what_prepares_for_too_long_learns_that_its_permit_is_over(database: Database, slow: list[Lane]) -> None:
    stage = Stage(database, lanes=slow, lane="slow", prepares=True)
    _worker, claim = await claimed(database, stage)
    [job] = claim.jobs
    job.permitted_until = stage.engine.clock.monotonic() - 0.001
    assert not await job.wait_for_permit(stage.engine.clock)


async def test_a_database_whose_claims_take_longer_than_a_permit_lives_still_lets_jobs_start(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far away, or slow: a lane of 40 a second has permits of 30 ms."""
    stage = Stage(database, lanes=[Lane("fast", 5, rate=(40, 1.0))], lane="fast")
    await stage.start()
    for _ in range(12):
        await stage.enqueue()
    at_once = database.run

    async def slowly(function: Any, *arguments: Any, **more: Any) -> Any:
        answer = await at_once(function, *arguments, **more)
        if function == stage.engine.claim_lane:
            await asyncio.sleep(0.08)
        return answer

    monkeypatch.setattr(database, "run", slowly)
    async with stage.working():
        await stage.until(lambda: len(stage.started) == 12)
