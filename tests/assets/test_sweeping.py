"""Copies that nobody works on: noticed, counted, tried again at their times, and never twice at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import delete, func, select, update

from longtake import Done, Fail, JobKind, Retry
from longtake.capabilities.media import health
from longtake.capabilities.media.health import MOST_STUCK, StuckCopies, fail_stuck
from longtake.db.dialects import NOW
from longtake.engine.tables import jobs
from longtake.services.assets import THUMBNAIL, assets, retry_mirror
from tests.assets.stage import PNG, Stage, status
from tests.engine.stage import done

if TYPE_CHECKING:
    from longtake import Database, Transaction
    from longtake.adapters.storage import Storage
    from tests.databases import StoppedClock

#: A minute more than a copy may be silent.
LONG = 660.0


def forget_jobs(tx: Transaction) -> None:
    tx.execute(delete(jobs))


def set_row(tx: Transaction, asset_id: str, values: dict[str, Any]) -> None:
    tx.execute(update(assets).where(assets.c.id == asset_id).values(**values))


def live_jobs(tx: Transaction) -> dict[str, int]:
    rows = tx.execute(select(jobs.c.kind, func.count().label("number")).group_by(jobs.c.kind))
    return {row.kind: row.number for row in rows if row.kind != health.SWEEP}


async def stick(stage: Stage, asset_id: str, state: str) -> None:
    """Leave a copy as a job does that was lost in the middle."""
    await stage.database.run(set_row, asset_id, {"mirror_state": state, "mirror_tried_at": NOW})
    await stage.database.run(forget_jobs)


def test_the_sweep_runs_every_five_minutes_once_over_all_machines(sqlite_database: Database) -> None:
    """V7: stuck copies."""
    schedule = StuckCopies(sqlite_database).schedule()
    assert (schedule.kind, schedule.every) == ("assets.sweep", 300.0)


@pytest.mark.parametrize("state", ["pending", "downloading", "uploading"])
async def test_a_copy_stuck_for_ten_minutes_fails_with_the_state_it_was_in(
    stage: Stage, clock: StoppedClock, state: str
) -> None:
    """V7: stuck copies."""
    stage.source.files["/result.png"] = PNG
    asset_id = await stage.register(role="import", source_expires_in=None)
    await stick(stage, asset_id, state)
    clock.advance(599)
    await stage.sweep()
    assert (await stage.asset(asset_id)).mirror_state == state
    clock.advance(2)
    await stage.sweep()
    asset = await stage.asset(asset_id)
    assert (asset.mirror_state, asset.mirror_attempts) == ("failed", 1)
    assert asset.mirror_error == f"COPY_STUCK: The copy was stuck in the state {state}."
    # V8: the next try, two minutes after the failure.
    assert await stage.wait_of(asset_id) == 120.0
    clock.advance(120)
    assert isinstance(await stage.try_once(), Done)
    asset = await stage.asset(asset_id)
    assert (asset.mirror_state, asset.mirror_attempts, asset.mirror_error) == ("completed", 2, None)


async def test_the_sweep_leaves_a_copy_with_a_live_job_to_the_engine(stage: Stage, clock: StoppedClock) -> None:
    """V7: stuck copies."""
    stage.source.files["/result.png"] = status(503)
    waiting = await stage.register(role="import", source_expires_in=None)
    assert isinstance(await stage.try_once(), Retry)
    running = await stage.register(role="import", source_expires_in=None)
    [job] = await stage.claim()
    await stage.database.run(set_row, running, {"mirror_state": "downloading", "mirror_tried_at": NOW})
    before = [await stage.asset(waiting), await stage.asset(running)]
    clock.advance(LONG)
    await stage.sweep()
    assert [await stage.asset(waiting), await stage.asset(running)] == before
    assert await stage.database.read(live_jobs) == {"assets.mirror": 2}
    assert job.args["asset"] == running


async def test_the_sweep_leaves_unfinished_and_copied_files_alone(stage: Stage, clock: StoppedClock) -> None:
    """V7: stuck copies."""
    draft = await stage.register(role="import", source_expires_in=None)
    await stick(stage, draft, "pending")
    await stage.database.run(set_row, draft, {"status": "generating"})
    stored = await stage.register("/stored.png", key="results/x/y.png", position=1)
    clock.advance(LONG)
    await stage.sweep()
    assert [(await stage.asset(one)).mirror_state for one in (draft, stored)] == ["pending", "completed"]
    assert await stage.database.read(live_jobs) == {}


async def test_a_copy_fails_for_good_after_four_tries_and_can_be_retried_by_hand(
    stage: Stage, clock: StoppedClock
) -> None:
    """V8: retries of a copy."""
    stage.source.files["/result.png"] = PNG
    asset_id = await stage.register(role="import", source_expires_in=None)
    for number, wait in enumerate([120.0, 300.0, 600.0, None], start=1):
        await stick(stage, asset_id, "downloading")
        clock.advance(LONG)
        await stage.sweep()
        asset = await stage.asset(asset_id)
        assert (asset.mirror_state, asset.mirror_attempts) == ("failed", number)
        assert [alert["severity"] for alert in await stage.alerts()] == ["WARNING"] * (number >= 3)
        if wait is not None:
            assert await stage.wait_of(asset_id) == wait
    assert await stage.database.read(live_jobs) == {}
    assert await stage.events(asset_id) == ["asset.failed"]
    clock.advance(86_400)
    await stage.sweep()
    assert await stage.database.read(live_jobs) == {}
    assert await stage.database.run(retry_mirror, stage.engine, [asset_id]) == [asset_id]
    assert isinstance(await stage.try_once(), Done)
    assert await stage.alerts() == []


async def test_stuck_tries_count_like_failed_ones(stage: Stage, clock: StoppedClock) -> None:
    """V8: retries of a copy."""
    stage.source.files["/result.png"] = status(503)
    asset_id = await stage.register(role="import", source_expires_in=None)
    await stick(stage, asset_id, "downloading")
    clock.advance(LONG)
    await stage.sweep()
    for wait, ending in ((120.0, Retry), (300.0, Retry), (600.0, Fail)):
        assert await stage.wait_of(asset_id) == wait
        clock.advance(wait)
        assert isinstance(await stage.try_once(), ending)
    asset = await stage.asset(asset_id)
    assert (asset.mirror_state, asset.mirror_attempts) == ("failed", 4)


async def test_a_sweep_takes_at_most_fifty_copies(stage: Stage, clock: StoppedClock) -> None:
    """V7: stuck copies."""
    for number in range(MOST_STUCK + 5):
        one = await stage.register(f"/{number}.png", role="import", source_expires_in=None)
        await stage.database.run(set_row, one, {"mirror_state": "uploading", "mirror_tried_at": NOW})
    await stage.database.run(forget_jobs)
    clock.advance(LONG)
    await stage.sweep()
    assert await stage.database.read(live_jobs) == {"assets.mirror": 50}
    await stage.sweep()
    assert await stage.database.read(live_jobs) == {"assets.mirror": 55}


async def test_copies_with_live_jobs_take_no_place_among_the_fifty_of_a_sweep(
    stage: Stage, clock: StoppedClock
) -> None:
    """V7: stuck copies."""
    stuck = await stage.register(role="import", source_expires_in=None, id="ffffffff-ffff-7fff-bfff-ffffffffffff")
    await stick(stage, stuck, "downloading")
    for number in range(MOST_STUCK):
        one = await stage.register(f"/{number}.png", role="import", source_expires_in=None)
        await stage.database.run(set_row, one, {"mirror_state": "uploading", "mirror_tried_at": NOW})
    clock.advance(LONG)
    await stage.sweep()
    assert (await stage.asset(stuck)).mirror_state == "failed"


async def test_a_result_that_is_stuck_is_tried_again_at_once_and_never_given_up_by_the_sweep(
    stage: Stage, clock: StoppedClock
) -> None:
    asset_id = await stage.register(source_expires_in=None)
    for number in range(1, 7):
        await stick(stage, asset_id, "downloading")
        clock.advance(LONG)
        await stage.sweep()
        asset = await stage.asset(asset_id)
        # Not even for a moment does it count as lost: its task would be refunded.
        assert (asset.mirror_state, asset.mirror_attempts) == ("pending", number)
        assert await stage.wait_of(asset_id) == 0.0
        assert len(await stage.alerts()) == (number >= 4)
    assert stage.provider.losses == []
    stage.source.files["/result.png"] = PNG
    assert isinstance(await stage.try_once(), Done)


async def test_two_sweeps_at_once_fail_a_copy_once_and_start_one_job(stage: Stage, clock: StoppedClock) -> None:
    asset_id = await stage.register(role="import", source_expires_in=None)
    await stick(stage, asset_id, "downloading")
    clock.advance(LONG)
    found = await asyncio.gather(*(stage.database.run(fail_stuck, stage.engine) for _ in range(4)))
    assert sorted(len(one) for one in found) == [0, 0, 0, 1]
    assert (await stage.asset(asset_id)).mirror_attempts == 1
    assert await stage.database.read(live_jobs) == {"assets.mirror": 1}


async def test_rows_older_than_the_program_are_started_without_counting_a_failure(
    stopped_database: Database, folder_storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """V2: the row starts the work, whoever writes it."""
    monkeypatch.setattr(health, "PAGE", 2)
    stage = Stage(stopped_database, folder_storage, kinds=[JobKind(THUMBNAIL, done)])
    # No kind is declared yet: the triggers find nothing to start.
    early = [await stage.register(f"/{number}.png", role="import", source_expires_in=None) for number in range(5)]
    assert await stopped_database.read(live_jobs) == {}
    async with stage.open():
        for _ in range(2):
            await stage.sweep()
            assert await stopped_database.read(live_jobs) == {"assets.mirror": 5, "assets.thumbnail": 5}
        for one in early:
            asset = await stage.asset(one)
            assert (asset.mirror_state, asset.mirror_attempts, asset.mirror_error) == ("pending", 0, None)
