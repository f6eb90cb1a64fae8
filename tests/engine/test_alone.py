"""Suspects, jobs that were there when two workers died, run alone: then nobody else can be to blame."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from longtake import Cancelled, Database, Done, Fail, Outcome
from longtake.engine.control import request_cancel
from tests.engine.lives import LeapingClock, until_beaten
from tests.engine.stage import Stage, ended, execute, live, until_read, wait_stubbornly

if TYPE_CHECKING:
    from longtake import Job, Transaction


async def make_suspect(stage: Stage, job_id: str) -> None:
    def mark(tx: Transaction) -> None:
        tx.execute(text("UPDATE jobs SET crashes = 2 WHERE id = :id"), {"id": job_id})

    await stage.database.run(mark)


async def test_a_suspect_runs_with_nothing_beside_it(database: Database) -> None:
    stage = Stage(database)
    await stage.start()
    running: set[str] = set()
    beside: dict[str, set[str]] = {}

    async def watch(job: Job) -> Outcome:
        running.add(job.id)
        beside[job.id] = set(running)
        if job.crashes:
            alone.append((await database.read(live, job.id)).alone)
        for _ in range(20):
            await asyncio.sleep(0)
        beside[job.id] |= running
        running.discard(job.id)
        return Done()

    alone: list[bool] = []
    stage.handler = watch
    ids = [await stage.enqueue() for _ in range(21)]
    suspects = [ids[3], ids[12]]
    for suspect in suspects:
        await make_suspect(stage, suspect)
    async with stage.working():
        await stage.until(lambda: len(stage.settled) == 21)
    assert [beside[suspect] for suspect in suspects] == [{suspect} for suspect in suspects]
    assert alone == [True, True]


async def test_a_suspect_that_is_cancelled_while_it_waits_is_never_run(database: Database) -> None:
    stage = Stage(database)
    await stage.start()
    gate = stage.gate()

    async def wait(_job: Job) -> Outcome:
        await gate.wait()
        return Done()

    stage.handler = wait
    first = await stage.enqueue()
    async with stage.working(heartbeat_seconds=0.01) as worker:
        await stage.until(lambda: len(stage.started) == 1)
        suspect = await stage.enqueue(delay=3600)
        await make_suspect(stage, suspect)
        await database.run(execute, "UPDATE jobs SET due_at = longtake_now() WHERE crashes > 0")
        await until_read(database, lambda tx: live(tx, suspect), lambda row: row.state == "running")
        assert await database.run(request_cancel, stage.engine, suspect) == "requested"
        await until_beaten(database)
        gate.set()
        await stage.until(lambda: len(stage.settled) == 2)
        assert len(worker.executor) == 0
    assert dict(stage.settled) == {first: Done(), suspect: Cancelled()}
    assert [job.id for job in stage.started] == [first]


async def test_a_suspect_that_wedges_alone_is_set_apart(database: Database) -> None:
    stage = Stage(database, time_limit=60.0)
    await stage.start()
    clock = LeapingClock()
    stage.engine.clock = clock
    end = stage.gate()

    async def wedge(_job: Job) -> Outcome:
        await wait_stubbornly(end)
        return Done()

    stage.handler = wedge
    job_id = await stage.enqueue()
    await make_suspect(stage, job_id)
    async with stage.working(heartbeat_seconds=0.01, stop_grace_seconds=0.0):
        await stage.until(lambda: len(stage.started) == 1)
        clock.leap += 71.0
        row: Any = await until_read(database, lambda tx: ended(tx, job_id), lambda row: row is not None)
        end.set()
    assert (row.state, row.error["code"]) == ("failed", "CRASHED")
    assert isinstance(stage.settled[0][1], Fail)
