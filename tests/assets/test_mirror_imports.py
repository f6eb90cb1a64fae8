"""Copies of what somebody brought in: V8's tries, and another copy of what is there already."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sqlalchemy import update

from longtake import Done, Fail, Retry, Snooze
from longtake.adapters.storage.s3 import S3Storage, parse_s3_url
from longtake.services.assets import assets, retry_mirror
from tests.assets.stage import MP4, PNG, Stage, status

if TYPE_CHECKING:
    from longtake import Database, Transaction
    from longtake.adapters.storage import Storage
    from tests.databases import StoppedClock


def wish_again(tx: Transaction, asset_id: str) -> None:
    tx.execute(update(assets).where(assets.c.id == asset_id).values(force=True))


async def fail_four_times(stage: Stage, clock: StoppedClock, asset_id: str) -> None:
    for wait in (120.0, 300.0, 600.0):
        assert isinstance(await stage.try_once(), Retry)
        assert (await stage.asset(asset_id)).mirror_state == "pending"
        assert await stage.wait_of(asset_id) == wait
        clock.advance(wait)
    assert isinstance(await stage.try_once(), Fail)


async def test_an_import_is_retried_after_2_5_and_10_minutes_then_fails_for_good(
    stage: Stage, clock: StoppedClock
) -> None:
    """V8: retries of a copy."""
    stage.source.files["/result.png"] = status(503)
    asset_id = await stage.register(role="import", source_expires_in=None)
    await fail_four_times(stage, clock, asset_id)
    asset = await stage.asset(asset_id)
    assert (asset.mirror_state, asset.mirror_attempts) == ("failed", 4)
    assert await stage.events(asset_id) == ["asset.failed", "test.lost"]
    [alert] = await stage.alerts()
    assert (alert["severity"], alert["code"], alert["count"]) == ("WARNING", "RESULT_NOT_SAVED", 2)
    assert alert["message"].startswith(f"The import {asset_id} could not be copied")
    clock.advance(86_400)
    await stage.sweep()
    assert await stage.claim() == []
    # By hand it gets all its tries again.
    assert await stage.database.run(retry_mirror, stage.engine, [asset_id]) == [asset_id]
    await fail_four_times(stage, clock, asset_id)
    await stage.database.run(retry_mirror, stage.engine, [asset_id])
    stage.source.files["/result.png"] = PNG
    assert isinstance(await stage.try_once(), Done)
    assert await stage.alerts() == []


async def test_the_third_failure_of_an_import_raises_an_alert(stage: Stage, clock: StoppedClock) -> None:
    """V8: retries of a copy."""
    asset_id = await stage.register(role="import", source_expires_in=None)
    for number in (1, 2, 3):
        assert isinstance(await stage.try_once(), Retry)
        assert len(await stage.alerts()) == (number >= 3)
        clock.advance(await stage.wait_of(asset_id))


async def test_an_import_whose_workers_died_is_a_warning_and_a_result_is_critical(stage: Stage) -> None:
    stage.source.files["/result.png"] = PNG
    for role, severity, expires in (("import", "WARNING", None), ("result", "CRITICAL", 600.0)):
        asset_id = await stage.register(role=role, source_expires_in=expires)
        [job] = await stage.claim()
        assert await stage.settle(job, Fail("CRASHED", "Its worker died 3 time(s) while running it."))
        [alert] = [one for one in await stage.alerts() if one["subject"] == asset_id]
        assert (alert["severity"], alert["code"]) == (severity, "RESULT_NOT_SAVED")


async def test_nobody_is_asked_for_another_address_of_an_import_and_its_own_is_tried_whatever_its_end(
    stage: Stage, clock: StoppedClock
) -> None:
    asset_id = await stage.register(role="import", source_expires_in=60.0)
    clock.advance(61)
    outcome = await stage.try_once()
    assert isinstance(outcome, Retry)
    assert (outcome.code, stage.provider.asked) == ("SOURCE_GONE", 0)
    stage.source.files["/result.png"] = PNG
    clock.advance(await stage.wait_of(asset_id))
    assert isinstance(await stage.try_once(), Done)


async def test_an_outage_of_our_storage_fails_no_import(
    stopped_database: Database, folder_storage: Storage, clock: StoppedClock
) -> None:
    """F31: the storage fails or is slow."""
    down = S3Storage(parse_s3_url("s3://bucket?endpoint=http://127.0.0.1:9"), access_key_id="x", secret_access_key="y")
    async with Stage(stopped_database, down).open() as stage:
        stage.source.files["/result.png"] = PNG
        asset_id = await stage.register(role="import", source_expires_in=None)
        for _ in range(6):
            outcome = await stage.try_once()
            assert isinstance(outcome, Snooze)
            assert outcome.code == "STORAGE_UNAVAILABLE"
            assert await stage.wait_of(asset_id) == 120.0
            clock.advance(120)
        assert len(await stage.alerts()) == 1
        stage.mirror._copier._storage = folder_storage
        assert isinstance(await stage.try_once(), Done)
        assert (await stage.asset(asset_id)).mirror_attempts == 1


async def test_an_import_that_is_too_large_is_given_up_at_once(
    stopped_database: Database, folder_storage: Storage
) -> None:
    async with Stage(stopped_database, folder_storage, most_bytes=1000).open() as stage:
        stage.source.files["/result.png"] = PNG
        asset_id = await stage.register(role="import", source_expires_in=None)
        assert isinstance(await stage.try_once(), Fail)
        assert (await stage.asset(asset_id)).mirror_state == "failed"


async def test_a_forced_copy_replaces_the_old_one(stage: Stage) -> None:
    """V3: what is ours is not copied again, unless by force."""
    other = PNG + b"and more"
    stage.source.files["/result.png"] = PNG
    asset_id = await stage.register(role="import", source_expires_in=None)
    assert isinstance(await stage.try_once(), Done)
    before = await stage.asset(asset_id)
    stage.source.files["/result.png"] = other
    await stage.database.run(wish_again, asset_id)
    assert isinstance(await stage.try_once(), Done)
    asset = await stage.asset(asset_id)
    assert asset.key is not None
    assert asset.key != before.key
    assert (asset.mirror_state, asset.checksum) == ("completed", hashlib.sha256(other).hexdigest())
    assert await stage.storage.get(asset.key, 10_000) == other


async def test_a_failed_forced_copy_keeps_the_first_copy(stage: Stage, clock: StoppedClock) -> None:
    """V3: what is ours is not copied again, unless by force."""
    stage.source.files["/result.png"] = PNG
    asset_id = await stage.register()
    assert isinstance(await stage.try_once(), Done)
    before = await stage.asset(asset_id)
    stage.source.files["/result.png"] = MP4
    await stage.database.run(wish_again, asset_id)
    clock.advance(601)
    assert isinstance(await stage.try_once(), Fail)
    asset = await stage.asset(asset_id)
    assert (asset.mirror_state, asset.key, asset.checksum) == ("failed", before.key, before.checksum)
    assert stage.provider.losses == []
