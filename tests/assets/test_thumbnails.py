"""Thumbnails: at once, three tries, of source or copy, and whatever the storage does."""

from __future__ import annotations

import asyncio
import io
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from aiohttp import web
from PIL import Image
from sqlalchemy import delete, update

from longtake import Done, Fail, Retry, Snooze, Worker, open_database
from longtake.adapters.decoder.pool import DecoderPool
from longtake.adapters.storage.s3 import S3Storage, parse_s3_url
from longtake.capabilities.media import range_reader, thumbnails
from longtake.errors import SettingsError
from longtake.server.application import Application
from longtake.services.assets import MIRROR, PREVIEW, THUMBNAIL, assets
from longtake.settings import Settings
from tests.assets.picture_stage import CLIP, PictureStage, by_parts, drawn, until_columns
from tests.assets.stage import status
from tests.frames.test_decoders import noisy_film
from tests.storages import keys_in
from tests.wait import PATIENCE_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from longtake import Database, Transaction
    from tests.assets.picture_stage import Removable
    from tests.databases import StoppedClock


@pytest.fixture
async def stage(stopped_database: Database, removable_beside: Removable) -> AsyncIterator[PictureStage]:
    async with PictureStage(stopped_database, removable_beside).open() as opened:
        yield opened


@pytest.fixture
async def running(database: Database, removable_beside: Removable) -> AsyncIterator[PictureStage]:
    """A stage on real time, for real workers."""
    async with PictureStage(database, removable_beside).open() as opened:
        yield opened


@asynccontextmanager
async def working(stage: PictureStage) -> AsyncIterator[None]:
    worker = Worker(stage.engine, poll_seconds=0.05, stop_grace_seconds=10.0)
    task = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await asyncio.wait_for(task, PATIENCE_SECONDS)


async def test_a_video_gets_its_thumbnail_from_the_source_before_there_is_a_copy(stage: PictureStage) -> None:
    """V6: thumbnails."""
    asked: list[str] = []
    stage.source.files["/clip.mp4"] = by_parts(CLIP, asked)
    asset_id = await stage.register("/clip.mp4", "video")
    assert isinstance(await stage.run(), Done)
    asset = await stage.asset(asset_id)
    assert (asset.thumbnail_state, asset.thumbnail_attempts, asset.mirror_state) == ("completed", 1, "pending")
    assert asset.thumbnail_key == f"thumbnails/{asset_id}-v2.jpg"
    picture = Image.open(io.BytesIO(await stage.storage.get(asset.thumbnail_key, 1_000_000)))
    assert (picture.format, picture.size) == ("JPEG", (960, 540))
    assert asset.thumbnail_metadata is not None
    assert asset.thumbnail_metadata.items() >= {"method": "frames", "version": 2, "of": "source"}.items()
    assert asset.thumbnail_tried_at == asset.thumbnail_at is not None
    assert (asset.width, asset.height) == (640, 360)
    assert asset.duration_seconds == pytest.approx(3, abs=1.1)
    assert asset.placeholder is not None
    assert asset.placeholder.startswith("data:image/webp;base64,")
    assert all(asked), "never without a range"
    assert "asset.thumbnail" in await stage.events(asset_id)
    assert [kind for kind, _args in await stage.live(asset_id)] == [MIRROR, PREVIEW]


async def test_an_image_gets_a_thumbnail_and_no_preview(stage: PictureStage) -> None:
    """V6: thumbnails."""
    stage.source.files["/result.png"] = drawn((500, 700))
    asset_id = await stage.register()
    await stage.run()
    asset = await stage.asset(asset_id)
    assert (asset.thumbnail_state, asset.width, asset.height) == ("completed", 500, 700)
    assert (asset.duration_seconds, asset.preview_state) == (None, "none")
    assert [kind for kind, _args in await stage.live(asset_id)] == [MIRROR]


async def test_thumbnails_are_tried_at_once_after_30_and_after_120_seconds(
    stage: PictureStage, clock: StoppedClock
) -> None:
    """V6: thumbnails."""
    stage.source.files["/clip.mp4"] = status(503)
    asset_id = await stage.register("/clip.mp4", "video")
    for number, wait in enumerate((30.0, 120.0), start=1):
        assert isinstance(await stage.run(), Retry)
        asset = await stage.asset(asset_id)
        assert (asset.thumbnail_state, asset.thumbnail_attempts) == ("pending", number)
        assert asset.thumbnail_tried_at == clock.now()
        clock.advance(wait - 0.1)
        assert await stage.claimed() == []
        clock.advance(0.1)
    await stage.run()
    asset = await stage.asset(asset_id)
    assert (asset.thumbnail_state, asset.thumbnail_attempts) == ("failed", 3)
    assert asset.thumbnail_error == "RESULT_NOT_COPIED: The address of the file answers 503."
    assert [kind for kind, _args in await stage.live(asset_id)] == [MIRROR], "the copy is not given up with it"


def test_a_try_of_a_thumbnail_may_take_60_seconds(tmp_path: Path) -> None:
    """V6: thumbnails."""
    assert thumbnails.TIME_LIMIT == 60.0
    assert DecoderPool(1)._wall_seconds < thumbnails.TIME_LIMIT, "so that the reason is told, and not only the limit"


async def test_a_thumbnail_under_way_shows_as_processing(running: PictureStage) -> None:
    """V6: thumbnails."""
    go_on = asyncio.Event()

    async def slowly(_request: web.Request) -> web.StreamResponse:
        await go_on.wait()
        return web.Response(body=drawn())

    running.source.files["/result.png"] = slowly
    asset_id = await running.register()
    async with working(running):
        await until_columns(running, asset_id, thumbnail_state="processing")
        go_on.set()
        await until_columns(running, asset_id, thumbnail_state="completed", mirror_state="completed")


async def test_the_thumbnail_is_made_while_the_storage_is_away(stage: PictureStage, clock: StoppedClock) -> None:
    """V1: copy and thumbnail do not wait for each other."""
    stage.source.files["/clip.mp4"] = by_parts(CLIP)
    asset_id = await stage.register("/clip.mp4", "video")
    stage.removable.take_away()
    assert isinstance(await stage.run(), Snooze)
    asset = await stage.asset(asset_id)
    assert (asset.thumbnail_state, asset.thumbnail_key, asset.width) == ("completed", None, 640)
    assert asset.placeholder is not None
    assert await stage.waiting() == [asset_id]
    assert (await stage.events(asset_id)).count("asset.thumbnail") == 1
    # However long it takes: no try is counted, and the source is not asked again.
    stage.source.files.clear()
    for _ in range(5):
        clock.advance(thumbnails.STORAGE_SECONDS)
        assert isinstance(await stage.run(), Snooze)
        assert (await stage.asset(asset_id)).thumbnail_state == "completed"
    stage.removable.bring_back()
    clock.advance(thumbnails.STORAGE_SECONDS)
    assert isinstance(await stage.run(), Done)
    assert (await stage.asset(asset_id)).thumbnail_key == f"thumbnails/{asset_id}-v2.jpg"
    assert await keys_in(stage.storage, "thumbnails") == [f"thumbnails/{asset_id}-v2.jpg"]
    assert await stage.waiting() == []
    assert (await stage.events(asset_id)).count("asset.thumbnail") == 1
    assert PREVIEW in [kind for kind, _args in await stage.live(asset_id)]


async def test_a_picture_that_waits_goes_with_its_asset(stage: PictureStage, clock: StoppedClock) -> None:
    stage.source.files["/result.png"] = drawn()
    asset_id = await stage.register()
    stage.removable.take_away()
    await stage.run()

    def remove(tx: Transaction) -> None:
        tx.execute(delete(assets).where(assets.c.id == asset_id))

    await stage.database.run(remove)
    assert await stage.waiting() == []
    clock.advance(thumbnails.STORAGE_SECONDS)
    await stage.run()
    assert (THUMBNAIL, {"asset": asset_id}) not in await stage.live(asset_id)


async def test_an_asset_that_is_deleted_while_its_picture_is_made_is_no_trouble(stage: PictureStage) -> None:
    stage.source.files["/result.png"] = drawn()
    asset_id = await stage.register()
    stage.removable.take_away()
    [job] = await stage.claimed()
    outcome = await stage.engine.kinds[THUMBNAIL].handler(job)

    def remove(tx: Transaction) -> None:
        tx.execute(delete(assets).where(assets.c.id == asset_id))

    await stage.database.run(remove)
    assert await stage.settle(job, outcome)
    assert await stage.waiting() == []


async def test_a_store_that_says_nothing_counts_as_away(stage: PictureStage, monkeypatch: pytest.MonkeyPatch) -> None:
    # A real socket: it takes connections, and nobody ever answers.
    silent = socket.create_server(("127.0.0.1", 0))
    address = f"s3://bucket?endpoint=http://127.0.0.1:{silent.getsockname()[1]}&region=us-east-1"
    stage.storage = S3Storage(parse_s3_url(address), access_key_id="key", secret_access_key="secret")
    stage.declare()
    monkeypatch.setattr(thumbnails, "PUT_SECONDS", 0.3)
    stage.source.files["/result.png"] = drawn()
    asset_id = await stage.register()
    outcome = await stage.run()
    assert isinstance(outcome, Snooze)
    assert outcome.code == "STORAGE_UNAVAILABLE"
    assert (await stage.asset(asset_id)).thumbnail_state == "completed"
    silent.close()


async def test_the_copy_completes_when_the_decoder_fails(stage: PictureStage, clock: StoppedClock) -> None:
    """V1: copy and thumbnail do not wait for each other."""
    await stage.decoders.close()
    stage.decoders = DecoderPool(1, processor_seconds=0.0, wall_seconds=0.0)
    stage.declare()
    stage.source.files["/clip.mp4"] = by_parts(CLIP)
    asset_id = await stage.register("/clip.mp4", "video")
    for wait in (30.0, 120.0, 0.0):
        await stage.run()
        clock.advance(wait)
    assert isinstance(await stage.run(MIRROR), Done)
    asset = await stage.asset(asset_id)
    assert (asset.mirror_state, asset.size) == ("completed", len(CLIP))
    assert asset.thumbnail_error is not None
    assert asset.thumbnail_error.startswith("DECODER_FAILED: ")


async def test_while_all_decoders_are_at_work_no_try_is_spent(stage: PictureStage, clock: StoppedClock) -> None:
    stage.source.files["/clip.mp4"] = by_parts(CLIP)
    asset_id = await stage.register("/clip.mp4", "video")
    busy = DecoderPool(0, place_seconds=0.01)
    stage.decoders, free = busy, stage.decoders
    stage.declare()
    assert isinstance(await stage.run(), Snooze)
    asset = await stage.asset(asset_id)
    assert (asset.thumbnail_attempts, asset.thumbnail_error) == (0, None)
    stage.decoders = free
    stage.declare()
    clock.advance(thumbnails.BUSY_SECONDS)
    assert isinstance(await stage.run(), Done)


async def test_a_thumbnail_is_given_up_after_three_failures_whatever_comes_between(
    stage: PictureStage, clock: StoppedClock
) -> None:
    """V6: thumbnails."""
    stage.source.files["/clip.mp4"] = by_parts(b"\0\0\0\x18ftypisom" + bytes(500))
    asset_id = await stage.register("/clip.mp4", "video")
    free, busy = stage.decoders, DecoderPool(0, place_seconds=0.01)
    for number, wait in enumerate(thumbnails.WAITS, start=1):
        assert isinstance(await stage.run(), Retry)
        assert (await stage.asset(asset_id)).thumbnail_attempts == number
        clock.advance(wait - 0.1)
        assert await stage.claimed() == []
        clock.advance(0.1)
        stage.decoders = busy
        stage.declare()
        assert isinstance(await stage.run(), Snooze)
        stage.decoders = free
        stage.declare()
        clock.advance(thumbnails.BUSY_SECONDS)
    await stage.run()
    asset = await stage.asset(asset_id)
    assert (asset.thumbnail_state, asset.thumbnail_attempts) == ("failed", 3)
    clock.advance(3600)
    assert await stage.claimed() == []


async def test_a_source_that_is_too_slow_for_a_decoder_to_wait_is_left_to_the_copy(
    stage: PictureStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reader, "SLOWEST_SECONDS", 0.2)
    whole, never = by_parts(noisy_film(2, (640, 360), faststart=True)), asyncio.Event()

    async def slow_after_the_first_part(request: web.Request) -> web.StreamResponse:
        if not request.headers["Range"].startswith("bytes=0-"):
            await never.wait()
        return await whole(request)

    stage.source.files["/clip.mp4"] = slow_after_the_first_part
    asset_id = await stage.register("/clip.mp4", "video")
    assert isinstance(await stage.run(), Retry)
    assert (await stage.asset(asset_id)).thumbnail_state == "pending"
    never.set()


async def test_our_copy_is_read_where_there_is_one(stage: PictureStage) -> None:
    stage.source.files["/result.png"] = drawn()
    asset_id = await stage.register()
    await stage.run(MIRROR)
    asked = len(stage.source.requests)
    await stage.run()
    asset = await stage.asset(asset_id)
    assert asset.thumbnail_metadata is not None
    assert asset.thumbnail_metadata["of"] == "copy"
    assert len(stage.source.requests) == asked


@pytest.mark.parametrize("gone", [True, False])
async def test_with_our_copy_gone_or_out_of_reach_the_source_is_read(stage: PictureStage, gone: bool) -> None:
    stage.source.files["/result.png"] = drawn()
    asset_id = await stage.register()
    await stage.run(MIRROR)
    key = (await stage.asset(asset_id)).key
    assert key is not None
    if gone:
        await stage.storage.delete([key])
    else:
        stage.removable.take_away()
    await stage.run()
    asset = await stage.asset(asset_id)
    assert asset.thumbnail_metadata is not None
    assert (asset.thumbnail_state, asset.thumbnail_metadata["of"]) == ("completed", "source")


async def test_our_own_trouble_costs_no_try_when_the_source_is_gone(stage: PictureStage, clock: StoppedClock) -> None:
    stage.source.files["/result.png"] = drawn()
    asset_id = await stage.register()
    await stage.run(MIRROR)
    stage.source.files.clear()
    stage.removable.take_away()
    for _ in range(5):
        assert isinstance(await stage.run(), Snooze)
        clock.advance(thumbnails.STORAGE_SECONDS)
    asset = await stage.asset(asset_id)
    assert (asset.thumbnail_state, asset.thumbnail_attempts) == ("pending", 0)
    assert (asset.thumbnail_error or "").startswith(f"{stage.removable.code}: ")
    stage.removable.bring_back()
    await stage.run()
    assert (await stage.asset(asset_id)).thumbnail_state == "completed"


async def spend_source_tries(stage: PictureStage, clock: StoppedClock) -> None:
    for wait in (30.0, 120.0):
        await stage.run()
        clock.advance(wait)


async def test_a_copy_that_arrives_during_the_last_try_is_a_second_chance(
    stage: PictureStage, clock: StoppedClock
) -> None:
    """V4: a second chance for the thumbnail."""
    stage.source.files["/result.png"] = status(503)
    asset_id = await stage.register(source_expires_in=3600.0)
    await spend_source_tries(stage, clock)
    [job] = await stage.claimed()
    outcome = await stage.engine.kinds[THUMBNAIL].handler(job)
    stage.source.files["/result.png"] = drawn()
    await stage.run(MIRROR)
    await stage.settle(job, outcome)
    asset = await stage.asset(asset_id)
    assert (asset.thumbnail_state, asset.thumbnail_attempts) == ("pending", 3)
    assert await stage.live(asset_id) == [(THUMBNAIL, {"asset": asset_id, "of_copy": True})]
    stage.source.files.clear()
    assert isinstance(await stage.run(), Done)
    asset = await stage.asset(asset_id)
    assert asset.thumbnail_metadata is not None
    assert (asset.thumbnail_state, asset.thumbnail_metadata["of"]) == ("completed", "copy")


async def test_a_copy_that_completes_while_the_thumbnail_is_given_up_is_seen(
    postgresql_url: str, removable: Removable
) -> None:
    """V4: a second chance for the thumbnail."""
    database = open_database(postgresql_url)
    async with PictureStage(database, removable).open() as stage:
        stage.source.files["/result.png"] = status(503)
        asset_id = await stage.register()
        [job] = await stage.claimed()
        with psycopg.connect(postgresql_url) as mirror, psycopg.connect(postgresql_url, autocommit=True) as watching:
            mirror.execute("UPDATE assets SET key = 'results/x/y.png', mirror_state = 'completed'")
            giving_up = asyncio.create_task(stage.settle(job, Fail("SOURCE_GONE", "It is gone.")))
            blocked = (
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            await until(lambda: watching.execute(blocked).fetchone(), "it waits for the row", lambda row: row != (0,))
            mirror.commit()
        await giving_up
        assert (THUMBNAIL, {"asset": asset_id, "of_copy": True}) in await stage.live(asset_id)
        assert (await stage.asset(asset_id)).thumbnail_state == "pending"
    database.close()


async def test_the_second_chance_is_the_last_even_if_its_tries_crash(stage: PictureStage, clock: StoppedClock) -> None:
    """V4: a second chance for the thumbnail."""
    stage.source.files["/result.png"] = status(503)
    asset_id = await stage.register(source_expires_in=3600.0)
    await spend_source_tries(stage, clock)
    [job] = await stage.claimed()
    stage.source.files["/result.png"] = drawn()
    await stage.run(MIRROR)
    # As when its worker dies: nobody can say what was tried.
    await stage.settle(job, Fail("CRASHED", "Its worker died."))
    [again] = await stage.claimed()
    assert again.args == {"asset": asset_id, "of_copy": True}
    await stage.settle(again, Fail("CRASHED", "Its worker died."))
    assert await stage.live(asset_id) == []
    asset = await stage.asset(asset_id)
    assert (asset.thumbnail_state, asset.thumbnail_attempts) == ("failed", 4)


async def test_a_copy_that_completes_after_the_thumbnail_was_given_up_restarts_it(
    stage: PictureStage, clock: StoppedClock
) -> None:
    """V4: a second chance for the thumbnail."""
    stage.source.files["/result.png"] = status(503)
    asset_id = await stage.register(source_expires_in=3600.0)
    await spend_source_tries(stage, clock)
    await stage.run()
    assert (await stage.asset(asset_id)).thumbnail_state == "failed"
    stage.source.files["/result.png"] = drawn()
    await stage.run(MIRROR)
    assert isinstance(await stage.run(), Done)
    assert (await stage.asset(asset_id)).thumbnail_state == "completed"


async def test_a_copy_that_cannot_be_decoded_is_told_and_its_bytes_are_kept(
    stage: PictureStage, clock: StoppedClock
) -> None:
    broken = drawn((900, 900))[:-400] + bytes(400)
    stage.source.files["/result.png"] = broken
    asset_id = await stage.register()
    await stage.run(MIRROR)
    for wait in (30.0, 120.0, 0.0):
        await stage.run()
        clock.advance(wait)
    asset = await stage.asset(asset_id)
    assert (asset.mirror_state, asset.size, asset.thumbnail_state) == ("completed", len(broken), "failed")
    assert asset.thumbnail_error == "MEDIA_REFUSED: The file is damaged, or not whole."
    assert await stage.live(asset_id) == [], "the copy was tried: no other chance"


async def test_sizes_that_were_known_before_are_kept(stage: PictureStage) -> None:
    stage.source.files["/result.png"] = drawn((300, 200))
    asset_id = await stage.register(width=600, height=400)
    await stage.run()
    asset = await stage.asset(asset_id)
    assert (asset.width, asset.height) == (600, 400)


async def test_a_source_that_changes_while_it_is_read_is_refused(stage: PictureStage) -> None:
    # Long enough that its index, at the end, is not in the first part.
    whole, number = by_parts(noisy_film(1, (640, 360), faststart=False)), iter(range(1000))

    async def changing(request: web.Request) -> web.StreamResponse:
        answer = await whole(request)
        answer.headers["ETag"] = f'"{next(number)}"'
        return answer

    stage.source.files["/clip.mp4"] = changing
    await stage.register("/clip.mp4", "video")
    outcome = await stage.run()
    assert isinstance(outcome, Retry)
    assert outcome.message == "The file changed at its source while it was being read."


async def test_a_thumbnail_that_is_there_is_not_made_again(stage: PictureStage) -> None:
    stage.source.files["/result.png"] = drawn()
    asset_id = await stage.register()
    [job] = await stage.claimed()
    outcome = await stage.engine.kinds[THUMBNAIL].handler(job)

    def name_another(tx: Transaction) -> None:
        values = {"thumbnail_key": "thumbnails/first.jpg", "thumbnail_state": "completed"}
        tx.execute(update(assets).where(assets.c.id == asset_id).values(**values))

    await stage.database.run(name_another)
    await stage.settle(job, outcome)
    assert (await stage.asset(asset_id)).thumbnail_key == "thumbnails/first.jpg"
    assert "asset.thumbnail" not in await stage.events(asset_id)


# -- Cloudflare --------------------------------------------------------------------------------------------------------


def test_cloudflare_without_a_zone_is_refused_at_the_start(sqlite_database: Database, tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, thumbnail_method="cloudflare")
    with pytest.raises(SettingsError, match="LONGTAKE_CLOUDFLARE_MEDIA_ZONE is empty"):
        Application(settings, sqlite_database)


def zone_answers(stage: PictureStage, answer: Any) -> list[str]:
    """Let the zone answer whatever it is asked; return what that was."""
    asked: list[str] = []

    async def media(request: web.Request) -> web.StreamResponse:
        asked.append(request.path_qs)
        return web.Response(body=answer) if isinstance(answer, bytes) else web.Response(status=answer)

    class Everything(dict[str, Any]):
        def get(self, _path: str, default: Any = None) -> Any:  # noqa: ARG002
            return media

    stage.zone.files = Everything()
    return asked


async def test_a_frame_by_cloudflare_is_taken_and_said_to_be_theirs(stage: PictureStage) -> None:
    await stage.use_cloudflare()
    asked = zone_answers(stage, drawn((960, 540), "JPEG"))
    asset_id = await stage.register("/clip.mp4?signature=a%2Fb", "video")
    await stage.run()
    asset = await stage.asset(asset_id)
    assert asset.thumbnail_metadata == {"method": "cloudflare", "version": 2, "of": "source"}
    assert (asset.thumbnail_state, asset.width, asset.duration_seconds) == ("completed", None, None)
    wish = "mode=frame,time=0.1s,width=960,height=540,fit=cover,format=jpg"
    assert asked == [f"/cdn-cgi/media/{wish}/{stage.source.url}/clip.mp4?signature=a%2Fb"]
    assert stage.source.requests == []
    assert asset.thumbnail_key is not None
    assert Image.open(io.BytesIO(await stage.storage.get(asset.thumbnail_key, 1_000_000))).size == (960, 540)


@pytest.mark.parametrize("answer", [500, 404, b"<html>", drawn((960, 540), "JPEG")[:500]])
async def test_where_cloudflare_gives_no_frame_it_is_made_here(stage: PictureStage, answer: Any) -> None:
    await stage.use_cloudflare()
    asked = zone_answers(stage, answer)
    stage.source.files["/clip.mp4"] = by_parts(CLIP)
    asset_id = await stage.register("/clip.mp4", "video")
    await stage.run()
    asset = await stage.asset(asset_id)
    assert asset.thumbnail_metadata is not None
    assert (asset.thumbnail_state, asset.thumbnail_metadata["method"]) == ("completed", "frames")
    assert len(asked) == 1


async def test_cloudflare_is_not_asked_for_images_nor_for_what_wants_our_key(stage: PictureStage) -> None:
    await stage.use_cloudflare()
    asked = zone_answers(stage, drawn((960, 540), "JPEG"))
    stage.source.files |= {"/result.png": drawn(), "/clip.mp4": by_parts(CLIP)}
    await stage.register()
    await stage.run()
    stage.provider.headers = {"x-goog-api-key": "canary"}
    await stage.register("/clip.mp4", "video")
    await stage.run()
    assert asked == []
