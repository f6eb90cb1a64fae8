"""Copies of results: whole or not at all, checked by their bytes, and named by the row that counts."""

from __future__ import annotations

import asyncio
import hashlib
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from sqlalchemy import delete, select

from longtake import Cancelled, Done, Fail, Retry, Settlement, Worker
from longtake.adapters.net import HttpClient
from longtake.capabilities.media import copier
from longtake.engine.control import request_cancel
from longtake.engine.errors import LeaseLost
from longtake.engine.tables import jobs
from longtake.services.assets import assets, find_assets
from tests.assets.stage import MP4, PNG, USER, Stage, status
from tests.engine.stage import until_read
from tests.storages import keys_in

if TYPE_CHECKING:
    from longtake import Database, Outcome, Transaction
    from longtake.adapters.storage import Storage
    from tests.databases import StoppedClock

LARGE = MP4 + random.Random(3).randbytes(11_000_000)


@pytest.mark.parametrize(
    ("body", "kind", "content_type"),
    [(PNG, "image", "image/png"), (LARGE, "video", "video/mp4")],
    ids=["image", "large video"],
)
async def test_a_result_is_copied_whole_with_its_checksum(
    database: Database, storage: Storage, body: bytes, kind: str, content_type: str
) -> None:
    async with Stage(database, storage).open() as stage:
        stage.source.files["/result"] = body
        asset_id = await stage.register("/result", kind)
        assert isinstance(await stage.try_once(), Done)
        asset = await stage.asset(asset_id)
        assert (asset.mirror_state, asset.size, asset.content_type) == ("completed", len(body), content_type)
        assert asset.checksum == hashlib.sha256(body).hexdigest()
        assert asset.key is not None
        assert await storage.get(asset.key, len(body)) == body
        assert asset.mirrored_at is not None
        assert await stage.events(asset_id) == ["asset.stored"]
        assert await stage.alerts() == []
        assert stage.provider.losses == []


async def test_the_copy_is_enqueued_first_of_all_and_once(stage: Stage) -> None:
    await stage.register()
    [job] = await stage.claim()
    assert (job.priority, job.key, job.subject) == (0, job.args["asset"], job.args["asset"])
    assert await stage.claim() == []


async def test_an_asset_whose_object_is_stored_already_needs_no_copy(stage: Stage) -> None:
    asset_id = await stage.register(key="results/x/y.png", content_type="image/png", size=1, checksum="00")
    assert (await stage.asset(asset_id)).mirror_state == "completed"
    assert await stage.events(asset_id) == ["asset.stored"]
    assert await stage.claim() == []


@pytest.mark.parametrize(
    "body",
    [
        b"<!doctype html><html>Sign in</html>",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"#EXTM3U\nfile:///etc/passwd",
        b"%PDF-1.7",
        b"",
        MP4,
    ],
    ids=["html", "svg", "playlist", "pdf", "empty", "a video for an image"],
)
async def test_a_file_of_the_wrong_type_is_refused_by_its_first_bytes(quick_stage: Stage, body: bytes) -> None:
    """F40: HTML with status 200 instead of media."""
    quick_stage.source.files["/result.png"] = body
    asset_id = await quick_stage.register()
    outcome = await quick_stage.try_once()
    assert isinstance(outcome, Retry)
    assert outcome.code == "MEDIA_REFUSED"
    assert (await quick_stage.asset(asset_id)).mirror_error == f"MEDIA_REFUSED: {outcome.message}"
    assert await keys_in(quick_stage.storage, "results") == []


async def test_a_truncated_file_is_discarded_and_fetched_again(stage: Stage, clock: StoppedClock) -> None:
    """F39: a truncated body."""

    async def cut(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Length": str(len(PNG))})
        await answer.prepare(request)
        await answer.write(PNG[:-100])
        assert request.transport is not None
        request.transport.abort()
        return answer

    stage.source.files["/result.png"] = cut
    asset_id = await stage.register()
    assert isinstance(await stage.try_once(), Retry)
    assert await keys_in(stage.storage, "results") == []
    stage.source.files["/result.png"] = PNG
    clock.advance(10)
    assert isinstance(await stage.try_once(), Done)
    asset = await stage.asset(asset_id)
    assert (asset.size, asset.mirror_attempts, asset.mirror_error) == (len(PNG), 2, None)


async def test_an_endless_file_is_cut_off_and_given_up(database: Database, folder_storage: Storage) -> None:
    """F46: a body without end."""

    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(MP4)
        while True:
            await answer.write(b"x" * 100_000)

    async with Stage(database, folder_storage, most_bytes=1_000_000).open() as stage:
        stage.source.files["/endless"] = endless
        asset_id = await stage.register("/endless", "video")
        outcome = await stage.try_once()
        assert isinstance(outcome, Fail)
        assert (await stage.asset(asset_id)).mirror_state == "failed"
        assert [alert["code"] for alert in await stage.alerts()] == ["RESULT_NOT_SAVED"]
        assert stage.provider.losses == [asset_id]
        assert await keys_in(folder_storage, "results") == []


async def test_a_copy_that_takes_too_long_is_stopped_and_leaves_nothing(
    quick_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stall(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(PNG)
        await asyncio.Event().wait()
        return answer

    monkeypatch.setattr(copier, "seconds_for_try", lambda _role, _attempt: 0.2)
    quick_stage.source.files["/result.png"] = stall
    await quick_stage.register()
    outcome = await quick_stage.try_once()
    assert isinstance(outcome, Retry)
    assert outcome.code in {"RESULT_NOT_COPIED", "ANSWER_TIMED_OUT"}
    assert await keys_in(quick_stage.storage, "results") == []


async def test_a_private_address_is_not_fetched(quick_stage: Stage) -> None:
    """A11: one guard for all outgoing requests."""
    quick_stage.mirror._copier._client = HttpClient()
    await quick_stage.register()
    outcome = await quick_stage.try_once()
    assert isinstance(outcome, Retry)
    assert outcome.code == "ADDRESS_REFUSED"
    assert quick_stage.source.requests == []


async def test_a_copy_that_lost_its_lease_leaves_an_object_that_no_row_names(stage: Stage, clock: StoppedClock) -> None:
    """F4: killed after the upload, before the row."""
    stage.source.files["/result.png"] = PNG
    asset_id = await stage.register()
    [first] = await stage.claim()
    first_outcome = await stage.kind.handler(first)
    # Rescued from a worker that seemed dead, and run again by another.
    assert await stage.settle(first, Retry("CRASHED", "its worker seemed dead"))
    clock.advance(600)
    stage.provider.answers = []
    await stage.database.run(_revive_source, asset_id)
    [second] = await stage.claim()
    assert isinstance(second_outcome := await stage.kind.handler(second), Done)
    assert await stage.settle(second, second_outcome)
    assert not await stage.settle(first, first_outcome)
    asset = await stage.asset(asset_id)
    assert asset.key == f"results/{asset_id}/{second.lease_token}.png"
    assert await keys_in(stage.storage, "results") == sorted(
        f"results/{asset_id}/{job.lease_token}.png" for job in (first, second)
    )
    assert await stage.events(asset_id) == ["asset.stored"]


def _revive_source(tx: Transaction, asset_id: str) -> None:
    tx.execute(assets.update().where(assets.c.id == asset_id).values(source_expires_at=None))


async def test_a_copy_that_is_there_is_not_fetched_again(stage: Stage) -> None:
    stage.source.files["/result.png"] = PNG
    asset_id = await stage.register()
    [job] = await stage.claim()
    assert await stage.settle(job, await stage.kind.handler(job))
    before = await stage.asset(asset_id)
    assert isinstance(await stage.kind.handler(job), Done)
    assert len(stage.source.requests) == 1
    assert await stage.asset(asset_id) == before


async def test_the_first_copy_wins_whatever_a_later_try_comes_to(stage: Stage) -> None:
    stage.source.files["/result.png"] = PNG
    asset_id = await stage.register()
    [job] = await stage.claim()
    outcome = await stage.kind.handler(job)

    def settle_alone(tx: Transaction, late: Outcome) -> None:
        stage.mirror.settle(tx, stage.engine, [Settlement(job, late)])

    await stage.database.run(settle_alone, outcome)
    before = await stage.asset(asset_id)
    [report] = [outcome.data]
    other = replace(report, copy=replace(report.copy, content_type="image/other"))
    given_up = replace(report, copy=None, given_up="expired")
    for late in (
        Done(data=other),
        Retry("LATE", "too late", data=replace(report, copy=None, counted=True)),
        Fail("LATE", "too late", data=given_up),
        Cancelled("too late"),
    ):
        await stage.database.run(settle_alone, late)
    assert await stage.asset(asset_id) == before
    assert await stage.events(asset_id) == ["asset.stored"]
    assert (stage.provider.losses, await stage.alerts()) == ([], [])


async def test_the_copy_of_an_asset_that_was_deleted_is_no_longer_wanted(stage: Stage) -> None:
    def forget(tx: Transaction) -> None:
        tx.execute(delete(assets))

    await stage.register()
    await stage.database.run(forget)
    assert isinstance(await stage.try_once(), Cancelled)


async def test_a_worker_copies_and_tells_what_it_is_doing(database: Database, folder_storage: Storage) -> None:
    seen, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(PNG)
        seen.set()
        await go_on.wait()
        return answer

    async with Stage(database, folder_storage).open() as stage:
        stage.source.files["/result.png"] = slowly
        asset_id = await stage.register()
        worker = Worker(stage.engine, poll_seconds=0.05)
        working = asyncio.create_task(worker.run())

        def state(tx: Transaction) -> str:
            return find_assets(tx, [asset_id], USER)[asset_id].mirror_state

        await seen.wait()
        await until_read(database, state, lambda found: found == "downloading")
        go_on.set()
        await until_read(database, state, lambda found: found == "completed")
        worker.stop()
        await working


async def test_a_copy_stops_when_its_job_is_no_longer_ours(quick_stage: Stage) -> None:
    async def lost(*_arguments: object) -> bool:
        raise LeaseLost("gone")

    quick_stage.source.files["/result.png"] = PNG
    await quick_stage.register()
    [job] = await quick_stage.claim()
    job.progress_writer = lost
    with pytest.raises(LeaseLost):
        await quick_stage.kind.handler(job)
    assert await keys_in(quick_stage.storage, "results") == []


async def test_a_copy_that_an_operator_cancels_is_failed_and_not_lost(stage: Stage) -> None:
    asset_id = await stage.register()

    def only_job(tx: Transaction) -> str:
        return str(tx.execute(select(jobs.c.id)).scalar_one())

    await stage.database.run(request_cancel, stage.engine, await stage.database.read(only_job))
    assert (await stage.asset(asset_id)).mirror_state == "failed"
    assert stage.provider.losses == []


async def test_a_mirror_that_kills_its_workers_is_failed_told_and_not_lost(stage: Stage) -> None:
    asset_id = await stage.register()
    [job] = await stage.claim()
    assert await stage.settle(job, Fail("CRASHED", "its worker died"))
    assert (await stage.asset(asset_id)).mirror_state == "failed"
    assert [alert["subject"] for alert in await stage.alerts()] == [asset_id]
    assert stage.provider.losses == []


@pytest.mark.parametrize("code", [500, 503, 429, 302])
async def test_a_server_in_trouble_is_tried_again(quick_stage: Stage, code: int) -> None:
    quick_stage.source.files["/result.png"] = status(code)
    await quick_stage.register()
    outcome = await quick_stage.try_once()
    assert isinstance(outcome, Retry)
    assert quick_stage.provider.asked == 0
