"""Writing about the middle of a run: fenced by the lease, and not too often."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from longtake import Database, Done, Outcome
from longtake.engine import executor as executor_module
from longtake.engine.errors import LeaseLost
from tests.engine.stage import Stage, add_effect, claim, effects, hire

if TYPE_CHECKING:
    from longtake import Job, Transaction


async def test_progress_is_written_at_most_once_a_second(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(database)
    await stage.start()
    written: list[bool] = []

    async def report(job: Job) -> Outcome:
        written.extend([await job.progress(add_effect, job.id, number) for number in range(3)])
        monkeypatch.setattr(executor_module, "PROGRESS_SECONDS", 0.0)
        written.append(await job.progress(add_effect, job.id, 99))
        return Done()

    stage.handler = report
    job_id = await stage.enqueue()
    async with stage.working():
        await stage.until(lambda: len(stage.settled) == 1)
    assert written == [True, False, False, True]
    assert await database.read(effects) == [(job_id, 0), (job_id, 99)]


async def test_what_nobody_may_miss_is_written_at_once(database: Database) -> None:
    stage = Stage(database)
    await stage.start()
    written: list[bool] = []

    async def report(job: Job) -> Outcome:
        written.extend([await job.progress(add_effect, job.id, number, at_once=number == 2) for number in range(4)])
        return Done()

    stage.handler = report
    job_id = await stage.enqueue()
    async with stage.working():
        await stage.until(lambda: len(stage.settled) == 1)
    assert written == [True, False, True, False]
    assert await database.read(effects) == [(job_id, 0), (job_id, 2)]


async def test_progress_is_fenced(database: Database) -> None:
    stage = Stage(database)
    await stage.start()
    await stage.enqueue()
    [job] = await database.run(claim, stage.engine, await database.run(hire))
    assert not await job.progress(add_effect, job.id, 1)

    async def write_after_losing(running: Job) -> Outcome:
        def take_away(tx: Transaction) -> None:
            tx.execute(text("UPDATE jobs SET lease_token = :other WHERE id = :id"), {"other": job.id, "id": running.id})

        await database.run(take_away)
        with pytest.raises(LeaseLost):
            await running.progress(add_effect, running.id, 1)
        stage.tell()
        lost.set()
        return Done()

    lost = asyncio.Event()
    stage.handler = write_after_losing
    await stage.enqueue()
    async with stage.working():
        await stage.until(lost.is_set)
    assert await database.read(effects) == []
    assert not any(isinstance(outcome, Done) for _job, outcome in stage.settled)
