"""Copies while the store itself misbehaves: it is slow, in trouble, or does what it is told and says nothing."""

from __future__ import annotations

import asyncio
import hashlib
import io
import random
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from longtake import Done, Retry, Snooze
from longtake.adapters.storage.files import TempFile
from longtake.adapters.storage.s3 import S3Storage, parse_s3_url
from longtake.capabilities.media import copier
from longtake.capabilities.media.copier import Copier
from longtake.clock import new_id
from tests.assets.stage import MP4, PNG, Stage
from tests.s3_server import ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY
from tests.storages import keys_in
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from longtake import Database
    from tests.databases import StoppedClock
    from tests.s3_server import S3Server

LARGE = MP4 + random.Random(6).randbytes(11_000_000)

HANDED_ON = {"etag", "content-type", "content-range", "last-modified"}


class Between:
    """Stands between us and the S3 server: hands everything on, and keeps some answers to itself."""

    def __init__(self, server: S3Server) -> None:
        self._server = server
        #: Of requests of which method, with what in their query, and how often.
        self.lose: tuple[str, str, int] = ("", "", 0)
        self.status: int | None = None
        self.silent = False
        self.lost = 0
        self.endpoint = ""

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        if self.silent:
            await asyncio.sleep(3600)
        if self.status is not None:
            return web.Response(status=self.status)
        url = URL(self._server.endpoint + request.raw_path, encoded=True)
        body = await request.read()
        async with (
            aiohttp.ClientSession(auto_decompress=False) as client,
            client.request(request.method, url, headers=request.headers, data=io.BytesIO(body)) as answer,
        ):
            content = await answer.read()
        method, about, times = self.lose
        if request.method == method and about in request.query_string and self.lost < times:
            self.lost += 1
            assert request.transport is not None
            request.transport.abort()
        kept = {name: value for name, value in answer.headers.items() if name.lower() in HANDED_ON}
        if request.method == "HEAD":
            kept["Content-Length"] = answer.headers["Content-Length"]
        return web.Response(status=answer.status, headers=kept, body=content)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Between]:
        application = web.Application(client_max_size=20_000_000)
        application.router.add_route("*", "/{path:.*}", self._pass_on)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    def storage(self, seconds: float = 20.0) -> S3Storage:
        address = parse_s3_url(f"s3://{BUCKET}/{new_id()}?endpoint={self.endpoint}")
        return S3Storage(
            address, access_key_id=ACCESS_KEY_ID, secret_access_key=SECRET_ACCESS_KEY, request_seconds=seconds
        )


@pytest.mark.parametrize(
    ("body", "lose", "tries"),
    [
        (MP4, ("PUT", "", 1), 1),
        (MP4, ("PUT", "", 2), 2),
        (LARGE, ("PUT", "partNumber", 1), 1),
        (LARGE, ("PUT", "partNumber", 100), 2),
        (LARGE, ("POST", "uploadId", 1), 1),
        (LARGE, ("POST", "uploadId", 2), 2),
    ],
    ids=["object once", "object twice", "part once", "parts always", "last word once", "last word twice"],
)
async def test_an_upload_with_a_lost_answer_ends_as_one_whole_object_that_the_row_names(
    stopped_database: Database,
    s3_server: S3Server,
    clock: StoppedClock,
    body: bytes,
    lose: tuple[str, str, int],
    tries: int,
) -> None:
    """F32: the answer to an upload is lost."""
    async with Between(s3_server).running() as between:
        storage = between.storage()
        async with Stage(stopped_database, storage).open() as stage:
            between.lose = lose
            stage.source.files["/clip.mp4"] = body
            asset_id = await stage.register("/clip.mp4", "video", role="import", source_expires_in=None)
            if tries > 1:
                outcome = await stage.try_once()
                assert isinstance(outcome, Snooze)
                assert outcome.code == "STORAGE_UNAVAILABLE"
                asset = await stage.asset(asset_id)
                assert (asset.mirror_state, asset.mirror_attempts, asset.key) == ("pending", 0, None)
                between.lose = ("", "", 0)
                clock.advance(await stage.wait_of(asset_id))
            assert isinstance(await stage.try_once(), Done)
            assert between.lost >= 1
            asset = await stage.asset(asset_id)
            assert asset.checksum == hashlib.sha256(body).hexdigest()
            assert asset.key in await keys_in(storage, "results")
            assert await storage.get(asset.key or "", len(body)) == body


@pytest.mark.parametrize("trouble", [{"status": 500}, {"status": 503}, {"silent": True}], ids=["500", "503", "slow"])
async def test_a_failing_store_is_retried_and_the_asset_does_not_fail(
    stopped_database: Database, s3_server: S3Server, clock: StoppedClock, trouble: dict[str, Any]
) -> None:
    """F31: the storage fails or is slow."""
    async with Between(s3_server).running() as between:
        vars(between).update(trouble)
        async with Stage(stopped_database, between.storage(2.0)).open() as stage:
            stage.source.files["/result.png"] = PNG
            asset_id = await stage.register()
            outcome = await stage.try_once()
            assert isinstance(outcome, Snooze)
            assert outcome.code == "STORAGE_UNAVAILABLE"
            asset = await stage.asset(asset_id)
            assert (asset.mirror_state, asset.mirror_attempts) == ("pending", 0)
            vars(between).update(status=None, silent=False)
            # The next try is not about how fast a store answers.
            stage.mirror._copier = Copier(between.storage(), stage.client, 20_000_000)
            clock.advance(await stage.wait_of(asset_id))
            assert isinstance(await stage.try_once(), Done)


@pytest.mark.parametrize("size", [0, 12_000_000], ids=["small", "large"])
@pytest.mark.parametrize("role", ["import", "result"])
async def test_a_silent_store_does_not_count_against_the_source(
    sqlite_database: Database, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, size: int, role: str
) -> None:
    """F31: the storage fails or is slow."""
    monkeypatch.setattr(copier, "seconds_for_try", lambda _role, _attempt: 1.0)
    async with Between(s3_server).running() as between:
        between.silent = True
        async with Stage(sqlite_database, between.storage(60.0)).open() as stage:
            stage.source.files["/clip.mp4"] = MP4 + bytes(size)
            asset_id = await stage.register("/clip.mp4", "video", role=role, source_expires_in=None)
            outcome = await stage.try_once()
            assert isinstance(outcome, Snooze)
            assert outcome.code == "STORAGE_UNAVAILABLE"
            asset = await stage.asset(asset_id)
            assert (asset.mirror_state, asset.mirror_attempts) == ("pending", 0)


@pytest.mark.parametrize("size", [0, 12_000_000], ids=["small", "large"])
async def test_a_silent_folder_does_not_count_against_the_source(
    quick_stage: Stage, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """F31: the storage fails or is slow."""
    go_on = threading.Event()
    monkeypatch.setattr(copier, "seconds_for_try", lambda _role, _attempt: 1.0)
    monkeypatch.setattr(TempFile, "write", lambda *_: go_on.wait(PATIENCE_SECONDS))
    quick_stage.source.files["/clip.mp4"] = MP4 + bytes(size)
    asset_id = await quick_stage.register("/clip.mp4", "video")
    outcome = await quick_stage.try_once()
    go_on.set()
    assert isinstance(outcome, Snooze)
    assert outcome.code == "STORAGE_UNAVAILABLE"
    assert (await quick_stage.asset(asset_id)).mirror_attempts == 0


@pytest.mark.parametrize("sent", [0, 3_000_000], ids=["from the first byte", "in the middle"])
async def test_a_source_that_stalls_for_longer_than_a_try_counts(
    quick_stage: Stage, monkeypatch: pytest.MonkeyPatch, sent: int
) -> None:
    monkeypatch.setattr(copier, "seconds_for_try", lambda _role, _attempt: 1.0)

    async def stall(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Length": "9000000"})
        await answer.prepare(request)
        await answer.write(MP4 + bytes(sent) if sent else b"")
        await asyncio.sleep(3600)
        return answer

    quick_stage.source.files["/clip.mp4"] = stall
    asset_id = await quick_stage.register("/clip.mp4", "video")
    outcome = await quick_stage.try_once()
    assert isinstance(outcome, Retry)
    assert outcome.code != "STORAGE_UNAVAILABLE"
    assert (await quick_stage.asset(asset_id)).mirror_attempts == 1
