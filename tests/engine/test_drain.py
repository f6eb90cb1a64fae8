"""A worker with an end in sight, beside workers that stay: it judges nobody by its own short lease."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from longtake.clock import new_id
from longtake.db.errors import DatabaseUnavailable
from longtake.engine.drain import drain, outstanding
from longtake.engine.leases import register_worker
from tests.engine.stage import Stage, build
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from longtake import Database
    from tests.databases import StoppedClock


SHIPPED_LEASE = 30.0


@pytest.mark.parametrize(("lease", "is_awaited"), [(7.5, True), (SHIPPED_LEASE, False)])
def test_the_dead_are_waited_for_if_that_can_become_certain_in_time(
    stopped_database: Database, clock: StoppedClock, lease: float, is_awaited: bool
) -> None:
    engine = build(stopped_database)
    run = stopped_database.run_blocking
    run(register_worker, new_id(), "test", stopped_database.incarnation, lease)
    assert not run(outstanding, engine, new_id(), 12.5, 12.5).due
    clock.advance(lease + 1)
    # Also when most of the time has passed: it was watched meanwhile.
    for within in (12.5, 1.0):
        assert run(outstanding, engine, new_id(), within, 12.5).due is is_awaited


async def test_a_database_that_is_away_is_told_of_in_time(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """On PostgreSQL a call tries for seconds before it gives up, and registering is tried for ever."""
    stage = Stage(database)
    await stage.start()

    async def hang(*_arguments: object, **_options: object) -> bool:
        await asyncio.Event().wait()
        return True

    monkeypatch.setattr(database, "run", hang)
    monkeypatch.setattr(database, "read", hang)
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(DatabaseUnavailable):
            await drain(stage.engine, 1.0, lease_seconds=SHIPPED_LEASE, concurrency=5, has_more=hang)


async def test_a_worker_that_cannot_register_hears_of_its_stop(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(database)
    await stage.start()
    refused = asyncio.Event()

    async def refuse(*_arguments: object, **_options: object) -> None:
        refused.set()
        raise DatabaseUnavailable("The database is away.")

    monkeypatch.setattr(database, "run", refuse)
    async with asyncio.timeout(PATIENCE_SECONDS), stage.working(stop_grace_seconds=0.1) as worker:
        await refused.wait()
    assert not worker.joined
