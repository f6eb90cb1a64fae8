"""Moving previews: of our copy, after the thumbnail, and of no importance to anything else."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from longtake import Cancelled, Done, Fail, Retry, Snooze
from longtake.adapters.decoder.pool import DecoderPool
from longtake.capabilities.media import thumbnails
from longtake.services.assets import MIRROR, PREVIEW, assets
from tests.assets.picture_stage import CLIP, PictureStage, by_parts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from longtake import Database, Outcome, Transaction
    from tests.assets.picture_stage import Removable
    from tests.databases import StoppedClock


@pytest.fixture
async def stage(stopped_database: Database, removable_beside: Removable) -> AsyncIterator[PictureStage]:
    async with PictureStage(stopped_database, removable_beside).open() as opened:
        opened.source.files["/clip.mp4"] = by_parts(CLIP)
        yield opened


async def with_thumbnail(stage: PictureStage) -> str:
    asset_id = await stage.register("/clip.mp4", "video")
    await stage.run()
    return asset_id


async def test_a_video_gets_a_picture_that_moves(stage: PictureStage) -> None:
    asset_id = await with_thumbnail(stage)
    assert (await stage.asset(asset_id)).preview_state == "pending"
    await stage.run(MIRROR)
    assert isinstance(await stage.run(PREVIEW), Done)
    asset = await stage.asset(asset_id)
    assert (asset.preview_state, asset.preview_error) == ("completed", None)
    assert asset.preview_key == f"previews/{asset_id}-v1.webp"
    picture = Image.open(io.BytesIO(await stage.storage.get(asset.preview_key, 5_000_000)))
    assert (picture.format, getattr(picture, "n_frames", 1)) == ("WEBP", 12)
    assert "asset.preview" in await stage.events(asset_id)


async def test_it_waits_for_our_copy_and_then_gives_up(stage: PictureStage, clock: StoppedClock) -> None:
    asset_id = await with_thumbnail(stage)
    for _ in range(thumbnails.MOST_LOOKS):
        assert isinstance(await stage.run(PREVIEW), Snooze)
        clock.advance(thumbnails.LOOK_SECONDS)
    outcome = await stage.run(PREVIEW)
    assert isinstance(outcome, Fail)
    asset = await stage.asset(asset_id)
    assert (asset.preview_state, asset.preview_key) == ("failed", None)
    assert (asset.preview_error or "").startswith("NO_COPY: ")
    assert asset.thumbnail_state == "completed"


async def test_our_own_storage_costs_no_try(stage: PictureStage, clock: StoppedClock) -> None:
    asset_id = await with_thumbnail(stage)
    await stage.run(MIRROR)
    stage.removable.take_away()
    for _ in range(5):
        outcome = await stage.run(PREVIEW)
        assert isinstance(outcome, Snooze)
        assert outcome.code == stage.removable.code
        clock.advance(thumbnails.PREVIEW_STORAGE_SECONDS)
    stage.removable.bring_back()
    await stage.run(PREVIEW)
    assert (await stage.asset(asset_id)).preview_state == "completed"


async def test_a_decoder_that_fails_is_tried_three_times_and_changes_nothing_else(
    stage: PictureStage, clock: StoppedClock
) -> None:
    asset_id = await with_thumbnail(stage)
    await stage.run(MIRROR)
    await stage.decoders.close()
    stage.decoders = DecoderPool(1, wall_seconds=0.0)
    stage.declare()
    for wait in thumbnails.PREVIEW_WAITS:
        assert isinstance(await stage.run(PREVIEW), Retry)
        clock.advance(wait)
    await stage.run(PREVIEW)
    asset = await stage.asset(asset_id)
    assert (asset.preview_state, asset.thumbnail_state, asset.mirror_state) == ("failed", "completed", "completed")
    assert (asset.preview_error or "").startswith("DECODER_FAILED: ")


async def test_a_decoder_that_fails_is_given_up_after_three_tries_whatever_comes_between(
    stage: PictureStage, clock: StoppedClock
) -> None:
    asset_id = await with_thumbnail(stage)
    for _ in range(2):
        assert isinstance(await stage.run(PREVIEW), Snooze)
        clock.advance(thumbnails.LOOK_SECONDS)
    await stage.run(MIRROR)
    await stage.decoders.close()
    failing, busy = DecoderPool(1, wall_seconds=0.0), DecoderPool(0, place_seconds=0.01)
    for wait in thumbnails.PREVIEW_WAITS:
        stage.decoders = failing
        stage.declare()
        assert isinstance(await stage.run(PREVIEW), Retry)
        clock.advance(wait - 0.1)
        assert await stage.claimed(PREVIEW) == []
        clock.advance(0.1)
        stage.decoders = busy
        stage.declare()
        assert isinstance(await stage.run(PREVIEW), Snooze)
        clock.advance(thumbnails.PREVIEW_STORAGE_SECONDS)
    stage.decoders = failing
    stage.declare()
    await stage.run(PREVIEW)
    asset = await stage.asset(asset_id)
    assert asset.preview_state == "failed"
    assert (asset.preview_error or "").startswith("DECODER_FAILED: ")
    clock.advance(3600)
    assert await stage.claimed(PREVIEW) == []


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Fail("CRASHED", "Its worker died."), "CRASHED: Its worker died."),
        (Cancelled("by an operator"), "CANCELLED: by an operator"),
    ],
)
async def test_an_end_that_only_the_engine_saw_is_told_too(stage: PictureStage, outcome: Outcome, told: str) -> None:
    asset_id = await with_thumbnail(stage)
    [job] = await stage.claimed(PREVIEW)
    await stage.settle(job, outcome)
    asset = await stage.asset(asset_id)
    assert (asset.preview_state, asset.preview_error, asset.preview_key) == ("failed", told, None)


async def test_an_asset_that_is_gone_ends_it(stage: PictureStage) -> None:
    asset_id = await with_thumbnail(stage)

    def remove(tx: Transaction) -> None:
        tx.execute(assets.delete().where(assets.c.id == asset_id))

    await stage.database.run(remove)
    assert isinstance(await stage.run(PREVIEW), Cancelled)
