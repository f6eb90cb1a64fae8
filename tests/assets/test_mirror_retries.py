"""Copies that fail: when they are tried again, when somebody is told, and when they are given up."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from longtake import Done, Fail, Retry, Snooze
from longtake.adapters.providers.errors import ProviderUnavailable
from longtake.adapters.storage.s3 import S3Storage, parse_s3_url
from longtake.capabilities.media.mirror_retry import (
    LAST_CHANCE_SECONDS,
    RENEW_SECONDS,
    seconds_for_try,
    wait_before_next_try,
)
from longtake.capability import FreshSource
from longtake.services.assets import retry_mirror
from tests.assets.stage import PNG, Stage, status
from tests.storages import keys_in

if TYPE_CHECKING:
    from longtake import Database
    from longtake.adapters.storage import Storage
    from tests.databases import StoppedClock

CANARY = "canary-of-the-tests"


def test_retries_wait_about_5_20_and_60_seconds_then_at_most_5_minutes() -> None:
    """G5: failed copies are retried while the source lives."""
    source = random.Random(1)
    for attempt, most in [(1, 5), (2, 20), (3, 60), (4, 300), (5, 300), (1000, 300)]:
        waits = [wait_before_next_try(attempt, None, source) for _ in range(200)]
        assert most * 0.8 <= min(waits) < max(waits) <= most


def test_a_source_that_is_about_to_end_is_tried_once_more_before() -> None:
    source = random.Random(1)
    assert wait_before_next_try(4, 100.0, source) == 85.0
    assert wait_before_next_try(4, 31.0, source) == 16.0
    # Too late for that: the next try comes right after its end, and asks for another address.
    assert wait_before_next_try(4, 20.0, source) == 21.0
    assert wait_before_next_try(4, -1.0, source) > 200.0


def test_the_first_try_is_short_and_later_ones_are_patient() -> None:
    assert [seconds_for_try("result", attempt) for attempt in (1, 2, 9)] == [30.0, 180.0, 180.0]


def test_each_try_of_an_import_may_take_180_seconds() -> None:
    """V5: states and limits of a copy."""
    assert [seconds_for_try("import", attempt) for attempt in (1, 2, 4)] == [180.0, 180.0, 180.0]


async def test_the_fourth_failure_of_a_copy_is_critical(stage: Stage, clock: StoppedClock) -> None:
    """G5: failed copies are retried while the source lives."""
    stage.source.files["/result.png"] = status(503)
    asset_id = await stage.register(source_expires_in=3600.0)
    for number, most in enumerate([5, 20, 60, 300, 300], start=1):
        assert isinstance(await stage.try_once(), Retry)
        wait = await stage.wait_of(asset_id)
        assert most * 0.8 <= wait <= most
        assert len(await stage.alerts()) == (number >= 4)
        assert (await stage.asset(asset_id)).mirror_attempts == number
        clock.advance(wait)
    [alert] = await stage.alerts()
    assert (alert["severity"], alert["code"], alert["subject"]) == ("CRITICAL", "RESULT_NOT_SAVED", asset_id)
    assert alert["count"] == 2
    stage.source.files["/result.png"] = PNG
    assert isinstance(await stage.try_once(), Done)
    assert await stage.alerts() == []
    assert (await stage.asset(asset_id)).mirror_state == "completed"
    assert stage.provider.losses == []


async def test_an_expired_address_is_replaced_at_once(stage: Stage) -> None:
    """F44: the address of a result has expired."""
    stage.source.files |= {"/result.png": status(403), "/fresh.png": PNG}
    stage.provider.answers = [FreshSource(f"{stage.source.url}/fresh.png", {"X-Key": CANARY}, 1200.0)]
    asset_id = await stage.register()
    assert isinstance(await stage.try_once(), Done)
    asset = await stage.asset(asset_id)
    assert (asset.mirror_state, asset.source_url) == ("completed", f"{stage.source.url}/fresh.png")
    assert [request.headers.get("X-Key") for request in stage.source.requests] == [None, CANARY]
    assert CANARY not in repr(asset)


async def test_an_expired_source_is_not_even_asked(stage: Stage, clock: StoppedClock) -> None:
    stage.source.files |= {"/result.png": PNG, "/fresh.png": PNG}
    stage.provider.answers = [FreshSource(f"{stage.source.url}/fresh.png")]
    await stage.register()
    clock.advance(601)
    assert isinstance(await stage.try_once(), Done)
    assert [request.path for request in stage.source.requests] == ["/fresh.png"]


async def test_a_fresh_address_is_requested_shortly_before_the_old_one_expires(
    stage: Stage, clock: StoppedClock
) -> None:
    """F44: Once the old one has failed; if there is no other, the old one is tried to its end."""
    stage.source.files |= {"/result.png": status(503), "/fresh.png": PNG}
    asset_id = await stage.register(source_expires_in=600.0)
    left = 600.0
    while left > RENEW_SECONDS:
        assert isinstance(await stage.try_once(), Retry)
        assert stage.provider.asked == 0
        wait = await stage.wait_of(asset_id)
        clock.advance(wait)
        left -= wait
    assert left >= LAST_CHANCE_SECONDS - 1
    assert isinstance(await stage.try_once(), Retry)
    assert (stage.provider.asked, stage.source.requests[-1].path) == (1, "/result.png")
    stage.provider.answers = [FreshSource(f"{stage.source.url}/fresh.png", {}, 1200.0)]
    clock.advance(await stage.wait_of(asset_id))
    assert isinstance(await stage.try_once(), Done)
    assert (await stage.asset(asset_id)).source_url == f"{stage.source.url}/fresh.png"


async def test_headers_a_provider_wants_are_sent_and_kept_nowhere(quick_stage: Stage) -> None:
    quick_stage.source.files["/result.png"] = status(500)
    quick_stage.provider.headers = {"X-Goog-Api-Key": CANARY}
    asset_id = await quick_stage.register()
    outcome = await quick_stage.try_once()
    assert quick_stage.source.requests[0].headers["X-Goog-Api-Key"] == CANARY
    assert CANARY not in repr(await quick_stage.asset(asset_id)) + repr(outcome)


async def test_a_missing_file_is_retried_until_its_address_expires_and_lost_once(
    stage: Stage, clock: StoppedClock
) -> None:
    """F41: success, then 404 on the file."""
    asset_id = await stage.register()
    waited, tries = 0.0, 0
    while isinstance(outcome := await stage.try_once(), Retry):
        tries += 1
        waited += (wait := await stage.wait_of(asset_id))
        assert (await stage.asset(asset_id)).mirror_state == "pending"
        assert stage.provider.losses == []
        clock.advance(wait)
    assert isinstance(outcome, Fail)
    assert outcome.code == "SOURCE_GONE"
    assert 600 <= waited <= 610
    assert tries >= 5
    assert (await stage.asset(asset_id)).mirror_state == "expired"
    assert stage.provider.losses == [asset_id]
    assert await stage.events(asset_id) == ["asset.expired", "test.lost"]
    assert [alert["code"] for alert in await stage.alerts()] == ["RESULT_NOT_SAVED"]


async def test_a_provider_that_gives_new_addresses_of_nothing_is_not_asked_for_ever(
    stage: Stage, clock: StoppedClock
) -> None:
    stage.provider.answers = [FreshSource(f"{stage.source.url}/nothing") for _ in range(100)]
    asset_id = await stage.register()
    while isinstance(await stage.try_once(), Retry):
        clock.advance(await stage.wait_of(asset_id))
    assert stage.provider.asked == 5
    assert (await stage.asset(asset_id)).mirror_state == "expired"
    assert stage.provider.losses == [asset_id]


async def test_a_provider_that_cannot_be_asked_is_asked_again_for_a_day(stage: Stage, clock: StoppedClock) -> None:
    stage.provider.answers = [ProviderUnavailable("down", provider="kie") for _ in range(3)]
    asset_id = await stage.register()
    clock.advance(700)
    for _ in range(2):
        outcome = await stage.try_once()
        assert isinstance(outcome, Retry)
        assert outcome.code == "SOURCE_UNKNOWN"
        clock.advance(await stage.wait_of(asset_id))
    clock.advance(86_400)
    assert isinstance(await stage.try_once(), Fail)
    assert (await stage.asset(asset_id)).mirror_state == "expired"
    assert stage.provider.losses == [asset_id]


async def test_trouble_with_our_storage_does_not_count_against_the_source(
    stopped_database: Database, folder_storage: Storage, clock: StoppedClock
) -> None:
    """F31: the storage fails or is slow."""
    down = S3Storage(parse_s3_url("s3://bucket?endpoint=http://127.0.0.1:9"), access_key_id="x", secret_access_key="y")
    async with Stage(stopped_database, down).open() as stage:
        stage.source.files["/result.png"] = PNG
        asset_id = await stage.register(source_expires_in=3600.0)
        for _ in range(4):
            outcome = await stage.try_once()
            assert isinstance(outcome, Snooze)
            assert outcome.code == "STORAGE_UNAVAILABLE"
            clock.advance(await stage.wait_of(asset_id))
        assert (await stage.asset(asset_id)).mirror_attempts == 0
        # Somebody has to know, whoever is to blame.
        assert [alert["code"] for alert in await stage.alerts()] == ["RESULT_NOT_SAVED"]
        stage.mirror._copier._storage = folder_storage
        assert isinstance(await stage.try_once(), Done)
        assert (await stage.asset(asset_id)).mirror_attempts == 1
        assert await stage.alerts() == []


async def test_a_file_that_is_not_there_at_an_address_without_an_end_is_not_looked_for_for_ever(
    stage: Stage, clock: StoppedClock
) -> None:
    asset_id = await stage.register(source_expires_in=None)
    tries = 1
    while isinstance(await stage.try_once(), Retry):
        clock.advance(await stage.wait_of(asset_id))
        tries += 1
        assert tries < 100
    assert tries == 15
    assert (await stage.asset(asset_id)).mirror_state == "expired"


async def test_retrying_by_hand_makes_a_waiting_copy_due_now(stage: Stage) -> None:
    stage.source.files["/result.png"] = status(503)
    asset_id = await stage.register()
    await stage.try_once()
    assert await stage.claim() == []
    stage.source.files["/result.png"] = PNG
    assert await stage.database.run(retry_mirror, stage.engine, [asset_id]) == [asset_id]
    assert isinstance(await stage.try_once(), Done)


async def test_retrying_by_hand_gives_a_new_job_to_what_was_given_up_and_none_to_what_is_there(
    stage: Stage, clock: StoppedClock
) -> None:
    asset_id = await stage.register()
    clock.advance(601)
    assert isinstance(await stage.try_once(), Fail)
    stored = await stage.register("/stored.png", key="results/x/y.png", position=1)
    stage.source.files["/fresh.png"] = PNG
    stage.provider.answers = [FreshSource(f"{stage.source.url}/fresh.png")]
    assert await stage.database.run(retry_mirror, stage.engine, [asset_id, stored]) == [asset_id]
    assert (await stage.asset(asset_id)).mirror_state == "pending"
    assert isinstance(await stage.try_once(), Done)
    assert (await stage.asset(asset_id)).mirror_state == "completed"
    assert await stage.alerts() == []
    assert len(await keys_in(stage.storage, "results")) == 1


@pytest.mark.parametrize("code", [401, 403, 404, 410])
async def test_every_way_of_saying_that_it_is_gone_makes_us_ask_the_provider(quick_stage: Stage, code: int) -> None:
    quick_stage.source.files["/result.png"] = status(code)
    asset_id = await quick_stage.register()
    assert isinstance(await quick_stage.try_once(), Retry)
    assert quick_stage.provider.asked == 1
    assert (await quick_stage.asset(asset_id)).mirror_state == "pending"
