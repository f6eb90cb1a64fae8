"""What is seen of a copy while it runs, and what it costs: bytes done in row and events, and flat memory."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from sqlalchemy import select

from longtake import Done, Worker
from longtake.db.errors import DatabaseUnavailable
from longtake.engine import executor
from longtake.engine.tables import events
from longtake.services.assets import find_assets
from tests.assets.stage import MP4, USER, Stage
from tests.engine.stage import until_read

if TYPE_CHECKING:
    from longtake import Database, Transaction
    from longtake.adapters.storage import Storage
    from longtake.services.assets import Asset

HALF = MP4 + b"x" * 2_000_000
LARGE_CHUNK = b"y" * 1_000_000
LARGE_CHUNKS = 300
MEGABYTE = 1024 * 1024


async def test_the_row_and_the_events_show_the_state_and_bytes_of_a_copy(
    database: Database, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """V5: states and limits of a copy."""
    go_on = asyncio.Event()

    async def in_two_halves(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Length": str(2 * len(HALF))})
        await answer.prepare(request)
        await answer.write(HALF)
        await go_on.wait()
        await answer.write(HALF)
        return answer

    async with Stage(database, storage).open() as stage:
        stage.source.files["/clip.mp4"] = in_two_halves
        asset_id = await stage.register("/clip.mp4", "video", role="import", source_expires_in=None)
        worker = Worker(stage.engine, poll_seconds=0.05)
        working = asyncio.create_task(worker.run())

        def row(tx: Transaction) -> Asset:
            return find_assets(tx, [asset_id], USER)[asset_id]

        with monkeypatch.context() as without_pauses:
            without_pauses.setattr(executor, "PROGRESS_SECONDS", 0.0)
            half = await until_read(database, row, lambda found: found.bytes_done == len(HALF))
        assert (half.mirror_state, half.size, half.key) == ("downloading", 2 * len(HALF), None)
        go_on.set()
        whole = await until_read(database, row, lambda found: found.mirror_state == "completed")
        worker.stop()
        await working
        assert (whole.bytes_done, whole.size) == (2 * len(HALF), 2 * len(HALF))
        told = await database.read(told_about, asset_id)
    assert [kind for kind, _user, _data in told[-2:]] == ["asset.progress", "asset.stored"]
    progress = [data for kind, _user, data in told if kind == "asset.progress"]
    done = [one["bytes_done"] for one in progress]
    assert done == sorted(done)
    assert {one["size"] for one in progress} == {2 * len(HALF)}
    # Told however short a time ago the last word was: the second half takes no second.
    assert progress[-1]["state"] == "uploading"
    assert {user for _kind, user, _data in told} == {USER}


def told_about(tx: Transaction, asset_id: str) -> list[tuple[str, str | None, dict[str, Any]]]:
    columns = (events.c.type, events.c.user_id, events.c.data)
    rows = tx.execute(select(*columns).where(events.c.subject == asset_id).order_by(events.c.sequence))
    return [(row.type, row.user_id, row.data) for row in rows]


async def test_a_database_that_is_away_does_not_hold_up_a_copy(quick_stage: Stage) -> None:
    asked = 0

    async def away(*_arguments: object) -> bool:
        nonlocal asked
        asked += 1
        raise DatabaseUnavailable("away")

    quick_stage.source.files["/clip.mp4"] = HALF
    await quick_stage.register("/clip.mp4", "video")
    [job] = await quick_stage.claim()
    job.progress_writer = away
    assert isinstance(await quick_stage.kind.handler(job), Done)
    # Asking takes seconds each time: once is enough for a while.
    assert asked == 1


async def test_memory_stays_flat_for_a_file_of_300_megabytes(sqlite_database: Database, storage: Storage) -> None:
    async def large(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(MP4)
        for _ in range(LARGE_CHUNKS):
            await answer.write(LARGE_CHUNK)
        return answer

    expected = hashlib.sha256(MP4)
    for _ in range(LARGE_CHUNKS):
        expected.update(LARGE_CHUNK)
    async with Stage(sqlite_database, storage, most_bytes=10**9).open() as stage:
        stage.source.files["/large.mp4"] = large
        asset_id = await stage.register("/large.mp4", "video", role="import", source_expires_in=None)
        copying = asyncio.create_task(stage.try_once())
        before = most = resident_bytes()
        while not copying.done():
            most = max(most, resident_bytes())
            await asyncio.wait({copying}, timeout=0.02)
        assert isinstance(copying.result(), Done)
        asset = await stage.asset(asset_id)
        assert asset.key is not None
        assert (asset.size, asset.checksum) == (len(MP4) + 300_000_000, expected.hexdigest())
        await storage.delete([asset.key])
    assert most - before < 64 * MEGABYTE


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
