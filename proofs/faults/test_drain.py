"""A worker with an end in sight, beside one that stays, for longer than the short lease of the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtake import Done
from longtake.engine.drain import drain
from longtake.engine.leases import find_workers
from tests.engine.stage import Stage, attempts, live

if TYPE_CHECKING:
    from longtake import Database, Job, Outcome

#: Half of it is for claiming: longer than the five seconds of the shortest lease.
SECONDS = 13.0
SHIPPED_LEASE, SHIPPED_BEAT = 30.0, 10.0


async def stay() -> bool:
    return True


async def test_a_worker_as_shipped_keeps_its_job(database: Database) -> None:
    """Its beat stands still for ten seconds and its lease has thirty: much for whoever has a lease of five."""
    stage = Stage(database)
    await stage.start()
    gate = stage.gate()

    async def wait(_job: Job) -> Outcome:
        await gate.wait()
        return Done()

    stage.handler = wait
    job_id = await stage.enqueue()
    async with stage.working(lease_seconds=SHIPPED_LEASE, heartbeat_seconds=SHIPPED_BEAT) as worker:
        await stage.until(lambda: len(stage.started) == 1)
        before = await database.read(live, job_id)
        await drain(stage.engine, SECONDS, lease_seconds=SHIPPED_LEASE, concurrency=5, has_more=stay)
        after = await database.read(live, job_id)
        assert (after.state, after.worker, after.lease_token) == ("running", worker.id, before.lease_token)
        assert [one.id for one in (await database.read(find_workers))[0]] == [worker.id]
        gate.set()
        await stage.until(lambda: len(stage.settled) == 1)
    assert [job.id for job in stage.started] == [job_id]
    assert [one.outcome for one in await database.read(attempts, job_id)] == ["done"]
