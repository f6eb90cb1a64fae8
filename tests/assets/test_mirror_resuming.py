"""Copies whose connection is lost in the middle: the rest is fetched where the source allows, or all of it later."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from longtake import Done, Retry
from longtake.capabilities.media import copier
from longtake.capability import FreshSource
from tests.assets.stage import MP4, Stage
from tests.storages import keys_in

if TYPE_CHECKING:
    from longtake import Database
    from longtake.adapters.storage import Storage

FILE = MP4 + random.Random(4).randbytes(12_000_000)
OTHER = MP4 + random.Random(5).randbytes(12_000_000)
ETAG = '"of this very file"'
LAST_WEEK = "Mon, 05 Jan 2026 10:00:00 GMT"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copier, "PAUSE_SECONDS", 0.0)


@dataclass
class Breaking:
    """A file server that breaks off after some bytes, as often as told, and knows ranges or not."""

    body: bytes = FILE
    headers: dict[str, str] = field(default_factory=lambda: {"ETag": ETAG})
    after: int = 5_000_000
    breaks: int = 1
    #: What is done to the answer about the rest.
    rest: dict[str, str] = field(default_factory=dict)
    rest_status: int = 206
    asked: list[tuple[str | None, str | None]] = field(default_factory=list)

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        wanted = request.headers.get("Range")
        self.asked.append((wanted, request.headers.get("If-Range")))
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.rest_status == 206 else 0
        answer = web.StreamResponse(status=self.rest_status if wanted else 200, headers=self.headers)
        answer.content_length = len(self.body) - start
        if start:
            answer.headers["Content-Range"] = f"bytes {start}-{len(self.body) - 1}/{len(self.body)}"
            answer.headers.update(self.rest)
        await answer.prepare(request)
        if len(self.asked) > self.breaks:
            await answer.write(self.body[start:])
            return answer
        await answer.write(self.body[start : start + self.after])
        assert request.transport is not None
        request.transport.close()
        return answer


async def _copy(stage: Stage, source: Breaking) -> tuple[str, object]:
    stage.source.files["/clip.mp4"] = source
    asset_id = await stage.register("/clip.mp4", "video")
    return asset_id, await stage.try_once()


@pytest.mark.parametrize(
    ("headers", "known_by"),
    [({"ETag": ETAG}, ETAG), ({"Last-Modified": LAST_WEEK}, LAST_WEEK)],
    ids=["etag", "last modified"],
)
async def test_a_copy_resumes_after_a_lost_connection_within_the_same_try(
    database: Database, storage: Storage, headers: dict[str, str], known_by: str
) -> None:
    """F39: a truncated body."""
    async with Stage(database, storage).open() as stage:
        source = Breaking(headers=headers, breaks=2, after=4_000_000)
        asset_id, outcome = await _copy(stage, source)
        assert isinstance(outcome, Done)
        asset = await stage.asset(asset_id)
        assert (asset.size, asset.mirror_attempts, asset.bytes_done) == (len(FILE), 1, len(FILE))
        assert asset.checksum == hashlib.sha256(FILE).hexdigest()
        assert asset.key is not None
        assert await storage.get(asset.key, len(FILE)) == FILE
        assert source.asked[0] == (None, None)
        # Nothing was fetched twice: every question begins where the last answer broke off.
        assert [by for _range, by in source.asked[1:]] == [known_by, known_by]
        assert source.asked[1][0] == "bytes=4000000-"
        assert source.asked[2][0] == "bytes=8000000-"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"ETag": 'W/"weak"'},
        {"ETag": ETAG, "Accept-Ranges": "none"},
        {"Last-Modified": "Thu, 01 Jan 2037 10:00:00 GMT"},
        {"Last-Modified": "yesterday"},
    ],
    ids=["nothing", "weak etag", "no ranges", "modified in this second", "no date"],
)
async def test_a_copy_without_a_validator_does_not_resume(quick_stage: Stage, headers: dict[str, str]) -> None:
    """F39: a truncated body."""
    source = Breaking(headers=headers)
    _asset_id, outcome = await _copy(quick_stage, source)
    assert isinstance(outcome, Retry)
    assert len(source.asked) == 1
    assert await keys_in(quick_stage.storage, "results") == []


@pytest.mark.parametrize(
    "lies",
    [
        {"rest_status": 200},
        {"rest": {"ETag": '"of another"'}},
        {"rest": {"Content-Range": f"bytes 0-{len(FILE) - 1}/{len(FILE)}"}},
        {"rest": {"Content-Range": f"bytes 5000000-{len(FILE)}/{len(FILE) + 1}"}},
        {"rest": {"Content-Range": "nonsense"}},
        {"rest_status": 500},
    ],
    ids=["whole file again", "other etag", "other beginning", "other size", "nonsense", "trouble"],
)
async def test_a_rest_of_another_file_is_never_put_behind_the_beginning(
    storage: Storage, sqlite_database: Database, lies: dict[str, Any]
) -> None:
    async with Stage(sqlite_database, storage).open() as stage:
        source = Breaking(**lies)
        asset_id, outcome = await _copy(stage, source)
        assert len(source.asked) == 2
        assert isinstance(outcome, Retry)
        assert outcome.code == "RESULT_NOT_COPIED"
        assert await keys_in(storage, "results") == []
        asset = await stage.asset(asset_id)
        assert (asset.mirror_state, asset.mirror_attempts, asset.key) == ("pending", 1, None)


async def test_a_source_that_breaks_off_all_the_time_is_left_for_a_later_try(quick_stage: Stage) -> None:
    source = Breaking(breaks=1000, after=10_000)
    _asset_id, outcome = await _copy(quick_stage, source)
    assert isinstance(outcome, Retry)
    assert len(source.asked) == 1 + copier.MOST_LOSSES
    assert await keys_in(quick_stage.storage, "results") == []


async def test_an_address_that_expires_during_a_copy_is_replaced_within_the_same_try(
    quick_stage: Stage,
) -> None:
    """F44: the address of a result has expired."""
    quick_stage.source.files["/fresh.mp4"] = FILE
    quick_stage.provider.answers = [FreshSource(f"{quick_stage.source.url}/fresh.mp4")]
    asset_id, outcome = await _copy(quick_stage, Breaking(rest_status=403))
    assert isinstance(outcome, Done)
    assert (await quick_stage.asset(asset_id)).checksum == hashlib.sha256(FILE).hexdigest()


async def test_a_file_that_changed_between_two_tries_is_the_new_one_whole(quick_stage: Stage) -> None:
    asset_id, outcome = await _copy(quick_stage, Breaking(rest_status=200))
    assert isinstance(outcome, Retry)
    quick_stage.source.files["/clip.mp4"] = OTHER
    await quick_stage.hurry(asset_id)
    assert isinstance(await quick_stage.try_once(), Done)
    assert (await quick_stage.asset(asset_id)).checksum == hashlib.sha256(OTHER).hexdigest()
