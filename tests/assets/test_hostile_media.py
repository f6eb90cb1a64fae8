"""Hostile media from end to end: a clear failure in the row each, no harm to the worker, and the next file is fine."""

from __future__ import annotations

import asyncio
import struct
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from longtake import Done, Worker
from longtake.capabilities.media import range_reader
from longtake.services.assets import MIRROR
from tests.assets.picture_stage import CLIP, PictureStage, by_parts, drawn, until_columns
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from longtake import Database
    from tests.assets.picture_stage import Removable
    from tests.databases import StoppedClock

REFUSED = "MEDIA_REFUSED: "
NOT_A_VIDEO = REFUSED + "The file is not a video of a supported type."
NOT_AN_IMAGE = REFUSED + "The file is not an image of a supported type."
DAMAGED = REFUSED + "The file is damaged, or not whole."


@pytest.fixture
async def stage(stopped_database: Database, removable_beside: Removable) -> AsyncIterator[PictureStage]:
    async with PictureStage(stopped_database, removable_beside).open() as opened:
        yield opened


def bomb(width: int, height: int) -> bytes:
    """Return a PNG of a few hundred bytes that says it is enormous."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = chunk(b"IDAT", zlib.compress(bytes(100_000)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b"")


async def endless(_request: web.Request) -> web.StreamResponse:
    """Begin as a video, and never end."""
    answer = web.StreamResponse()
    await answer.prepare(_request)
    await answer.write(b"\0\0\0\x18ftypisom")
    while True:
        await answer.write(bytes(1_000_000))


async def dripping(request: web.Request) -> web.StreamResponse:
    """Send one byte at a time, far too slowly."""
    answer = web.StreamResponse()
    await answer.prepare(request)
    for byte in CLIP:
        await answer.write(bytes([byte]))
        await asyncio.sleep(0.2)
    return answer


PLAYLIST = b"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>'
FILES: dict[str, tuple[str, Any, str]] = {
    "a truncated video": ("video", CLIP[: len(CLIP) // 5], DAMAGED),
    "a truncated PNG": ("image", drawn((900, 900))[:-400], DAMAGED),
    "an empty file": ("video", b"", NOT_A_VIDEO),
    "an empty file by parts": ("video", by_parts(b""), "RESULT_NOT_COPIED: The address of the file answers 416."),
    "HTML": ("video", b"<!doctype html><title>Not found</title>" * 20, NOT_A_VIDEO),
    "a playlist called .mp4": ("video", PLAYLIST, NOT_A_VIDEO),
    "a playlist behind the beginning of an MP4": ("video", b"\0\0\0\x18ftypisom" + bytes(12) + PLAYLIST, DAMAGED),
    "50,000×50,000 pixels": ("image", bomb(50_000, 50_000), REFUSED + "The picture has more than 50,000,000 pixels"),
    "more pixels than bytes": ("image", bomb(30_000, 1_600), DAMAGED),
    "SVG": ("image", SVG, NOT_AN_IMAGE),
    "PDF": ("image", b"%PDF-1.7\n" + bytes(500), NOT_AN_IMAGE),
    "an image where a video should be": ("video", drawn(), NOT_A_VIDEO),
}


async def test_a_hostile_file_fails_clearly_and_harms_nothing(stage: PictureStage, clock: StoppedClock) -> None:
    """A12–A15: a decoder never gets an address or a playlist."""
    for name, (kind, file, reason) in FILES.items():
        stage.source.files["/upload.mp4"] = file
        asset_id = await stage.register("/upload.mp4", kind)
        for wait in (30.0, 120.0, 0.0):
            await stage.run()
            clock.advance(wait)
        asset = await stage.asset(asset_id)
        assert (asset.thumbnail_state, asset.thumbnail_attempts, asset.placeholder) == ("failed", 3, None), name
        assert (asset.thumbnail_error or "").startswith(reason), name
        await assert_unharmed(stage)


async def test_a_file_without_end_is_read_up_to_the_limit(stage: PictureStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """F46: a body without end."""
    monkeypatch.setattr(range_reader, "MOST_BYTES", 5_000_000)
    stage.source.files["/endless.mp4"] = endless
    asset_id = await stage.register("/endless.mp4", "video")
    await stage.run()
    asset = await stage.asset(asset_id)
    assert (asset.thumbnail_error or "").startswith("ANSWER_TOO_LARGE: ")
    await assert_unharmed(stage)


async def test_a_source_that_sends_a_byte_at_a_time_is_left_at_the_limit(
    stage: PictureStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough for a busy machine to send the request; the file itself would take hours.
    monkeypatch.setattr(range_reader, "PART_SECONDS", 3.0)
    stage.source.files["/slow.mp4"] = dripping
    asset_id = await stage.register("/slow.mp4", "video")
    await stage.run()
    asset = await stage.asset(asset_id)
    assert (asset.thumbnail_error or "").partition(":")[0] == "ANSWER_TIMED_OUT"
    await assert_unharmed(stage)


async def test_what_a_thumbnail_refuses_the_copy_may_keep_and_the_other_way_round(
    stage: PictureStage, clock: StoppedClock
) -> None:
    """The bytes are what was paid for: they are kept whole, whether or not a decoder can make sense of them."""
    stage.source.files["/upload.mp4"] = FILES["a truncated video"][1]
    asset_id = await stage.register("/upload.mp4", "video")
    await stage.run()
    assert isinstance(await stage.run(MIRROR), Done)
    assert (await stage.asset(asset_id)).size == len(CLIP) // 5
    clock.advance(30)
    await stage.run()
    assert (await stage.asset(asset_id)).thumbnail_state == "pending"


async def test_a_worker_that_gets_all_of_them_at_once_does_the_good_ones(
    database: Database, removable_beside: Removable
) -> None:
    async with PictureStage(database, removable_beside).open() as stage:
        hostile = []
        for number, (kind, file, _reason) in enumerate(FILES.values()):
            stage.source.files[f"/{number}"] = file
            hostile.append(await stage.register(f"/{number}", kind))
        stage.source.files["/good.mp4"] = by_parts(CLIP)
        good = await stage.register("/good.mp4", "video")
        worker = Worker(stage.engine, poll_seconds=0.05, stop_grace_seconds=10.0)
        task = asyncio.create_task(worker.run())
        # All at once: what has failed is tried again after 30 s, and then says something else.
        await asyncio.gather(
            until_columns(stage, good, preview_state="completed"),
            *(until_columns(stage, one, thumbnail_state="pending", thumbnail_attempts=1) for one in hostile),
        )
        worker.stop()
        await asyncio.wait_for(task, PATIENCE_SECONDS)
        assert (await stage.asset(good)).thumbnail_attempts == 1


async def assert_unharmed(stage: PictureStage) -> None:
    """Say that the next file is fine, and that nothing was left behind."""
    stage.source.files["/good.mp4"] = by_parts(CLIP)
    good = await stage.register("/good.mp4", "video")
    assert isinstance(await stage.run(), Done)
    assert (await stage.asset(good)).thumbnail_state == "completed"
    assert len(stage.decoders._idle) == 1
