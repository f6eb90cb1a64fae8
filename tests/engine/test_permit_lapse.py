"""A permit is for the start of the handler: a job that is too late is given back, with nothing spent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from longtake import Database, Lane, Worker
from longtake.engine.leases import register_worker
from longtake.engine.queue import Claim, PutBack
from tests.engine.stage import Stage, claim_lane
from tests.wait import until

if TYPE_CHECKING:
    from longtake.engine.outcomes import Verdict


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
    [one] = worker.executor.all()
    await conclude(worker)
    assert len(stage.started) == 1
    assert one.start_by == taken_at + 0.2


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
    await until(lambda: one.waiting)
    assert stage.started == []
    await stage.until(lambda: len(stage.started) == 1)
    assert stage.engine.clock.monotonic() - now >= 0.05


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
