"""The jobs `assets.thumbnail` and `assets.preview`: pictures of a finished file.

The row starts a thumbnail: a trigger of the table `assets` inserts its job (`migrations/0001_triggers.py`). It is made
independently of the copy: neither job waits for the other, and neither can fail the other. While the storage is away,
the thumbnail waits in the database and is served from there. A preview needs our copy, and is made when nothing more
urgent is to be done.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

from longtake.adapters.decoder.errors import DecodersBusy, MediaRefused
from longtake.adapters.decoder.pool import DecoderPool
from longtake.adapters.decoder.protocol import DecodeRequest, DecodeResult
from longtake.adapters.storage.errors import StorageError, StorageUnavailable
from longtake.adapters.storage.keys import preview_key, thumbnail_key
from longtake.adapters.storage.media_type import FIRST_BYTES, JPEG, WEBP, media_type
from longtake.capabilities.media.range_reader import RangedFile, Spools, open_source, open_stored
from longtake.capabilities.media.store import (
    find_asset,
    give_up_thumbnail,
    keep_thumbnail,
    note_no_preview,
    note_preview,
    note_stored_thumbnail,
    note_thumbnail,
    note_thumbnail_failure,
    note_thumbnail_started,
    waiting_thumbnail,
)
from longtake.capability import AssetOwner
from longtake.db.errors import DatabaseUnavailable
from longtake.engine.errors import LeaseLost
from longtake.engine.jobs import Job, JobRequest, Priority
from longtake.engine.kinds import JobKind, Settlement, Steps
from longtake.engine.lanes import Lane
from longtake.engine.outcomes import Cancelled, Done, Fail, Outcome, Retry, Snooze
from longtake.errors import LongtakeError
from longtake.services.assets import PREVIEW, THUMBNAIL, Asset
from longtake.services.assets.errors import AssetGone, ResultNotCopied

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient
    from longtake.adapters.storage import Storage
    from longtake.db import Database, Transaction
    from longtake.engine.engine import Engine

log = structlog.get_logger(__name__)

THUMBNAIL_LANE = Lane(THUMBNAIL, max_running=50)
#: At once, 30 s after the first failure, 120 s after the second.
WAITS = (30.0, 120.0)
TIME_LIMIT = 60.0
#: A store that has not accepted a thumbnail by then counts as away.
PUT_SECONDS = 10.0
#: How long to wait for a store that is away, and for a free decoder.
STORAGE_SECONDS = 30.0
BUSY_SECONDS = 5.0
#: Few previews at once: nothing waits for them.
PREVIEW_LANE = Lane(PREVIEW, max_running=4)
PREVIEW_WAITS = (60.0, 300.0)
PREVIEW_STORAGE_SECONDS = 60.0
#: A preview needs frames from the whole file and so our copy: how often to look for that.
LOOK_SECONDS = 15.0
MOST_LOOKS = 40
WIDTH, HEIGHT, QUALITY, AT_SECONDS = 960, 540, 95, 0.1
VERSION = 2
#: Cloudflare fetches the video before it answers.
CLOUDFLARE_SECONDS = 20.0
CLOUDFLARE_BYTES = 5_000_000
OK = 200
CLOUDFLARE_OPTIONS = "mode=frame,time=0.1s,width=960,height=540,fit=cover,format=jpg"


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A thumbnail and its placeholder. Width, height and duration are those of the file, None if unknown."""

    picture: bytes
    placeholder: bytes
    width: int | None
    height: int | None
    duration_seconds: float | None
    #: How it was made, for the column `thumbnail_metadata`.
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ThumbnailReport:
    """The result of a try, for the transaction that ends it."""

    asset: Asset
    #: None when an earlier try made it, or none could be made.
    thumbnail: Thumbnail | None = None
    #: Its key; None while it waits for the storage.
    key: str | None = None


class Thumbnails:
    """Runs the jobs that make thumbnails."""

    def __init__(self, database: Database, storage: Storage, maker: ThumbnailMaker) -> None:
        self._database = database
        self._storage = storage
        self._maker = maker

    def kind(self) -> JobKind:
        return JobKind(
            THUMBNAIL,
            self.run,
            self.settle,
            lane=THUMBNAIL_LANE.name,
            priority=Priority.TOP,
            time_limit=TIME_LIMIT,
            max_attempts=len(WAITS) + 1,
            back_off=Steps(WAITS),
        )

    async def run(self, job: Job) -> Outcome:
        """Make the thumbnail, unless an earlier try has, and store it."""
        asset = await self._database.read(find_asset, job.args["asset"])
        if asset is None:
            return Cancelled("The asset is gone.")
        if asset.thumbnail_key is not None:
            return Done()
        waiting = await self._database.read(waiting_thumbnail, asset.id)
        if waiting is not None:
            return await self._put(job, ThumbnailReport(asset), waiting)
        try:
            await _note_progress(job, asset.id)
            thumbnail = await self._maker.make(asset, of_copy=bool(job.args.get("of_copy")))
        except LeaseLost:
            raise
        except DecodersBusy as error:
            return Snooze(BUSY_SECONDS, code=error.code, message=error.message)
        except StorageError as error:
            # Our own fault: the copy exists, and works once it can be read.
            return Snooze(STORAGE_SECONDS, code=error.code, message=error.message, data=ThumbnailReport(asset))
        except LongtakeError as error:
            return Retry(error.code, error.message, data=ThumbnailReport(asset))
        return await self._put(job, ThumbnailReport(asset, thumbnail), thumbnail.picture)

    async def _put(self, job: Job, report: ThumbnailReport, picture: bytes) -> Outcome:
        asset = report.asset
        key = thumbnail_key(asset.id, asset.file_number)
        try:
            await self._store(key, picture)
        except StorageError as error:
            kept = report if report.thumbnail else None
            return Snooze(STORAGE_SECONDS, code=error.code, message=error.message, data=kept)
        # The preview is made when nothing more urgent is to be done.
        preview = JobRequest(PREVIEW, {"asset": asset.id}, key=asset.id, subject=asset.id, request_id=job.request_id)
        return Done(data=ThumbnailReport(asset, report.thumbnail, key), then=[preview] if asset.kind == "video" else [])

    async def _store(self, key: str, picture: bytes) -> None:
        try:
            async with asyncio.timeout(PUT_SECONDS):
                await self._storage.put(key, picture, JPEG.content_type)
        except TimeoutError:
            raise StorageUnavailable(f"The storage did not accept the thumbnail within {PUT_SECONDS:g} s.") from None

    # -- in the transaction that ends the try --------------------------------------------------------------------

    def settle(self, tx: Transaction, engine: Engine, settlements: Sequence[Settlement]) -> None:
        """Write the results of the tries, sorted by asset so that two workers cannot deadlock."""
        for one in sorted(settlements, key=lambda settlement: str(settlement.job.args["asset"])):
            report = one.outcome.data if isinstance(one.outcome.data, ThumbnailReport) else None
            asset_id: str = one.job.args["asset"]
            match one.outcome:
                case Done() | Snooze() if report is not None:
                    _settle_report(tx, report, one.outcome)
                case Retry(code=code, message=message):
                    note_thumbnail_failure(tx, asset_id, f"{code}: {message}")
                case Fail(code=code, message=message):
                    _settle_end(tx, engine, one.job, f"{code}: {message}", report)
                case Cancelled(reason=reason):
                    note_thumbnail_failure(tx, asset_id, f"CANCELLED: {reason}", state="failed")


def _settle_end(tx: Transaction, engine: Engine, job: Job, error: str, report: ThumbnailReport | None) -> None:
    """Give up, unless a copy has come that was not tried: it gets one more job, the last."""
    asset_id: str = job.args["asset"]
    copy_tried = bool(job.args.get("of_copy")) or (report is not None and report.asset.key is not None)
    if give_up_thumbnail(tx, asset_id, error, copy_tried=copy_tried):
        args = {"asset": asset_id, "of_copy": True}
        engine.enqueue(tx, THUMBNAIL, args, key=asset_id, subject=asset_id, request_id=job.request_id)


def _settle_report(tx: Transaction, report: ThumbnailReport, outcome: Done | Snooze) -> None:
    if report.thumbnail is not None:
        note_thumbnail(tx, report.asset, report.thumbnail, report.key)
        if report.key is None:
            keep_thumbnail(tx, report.asset, report.thumbnail.picture)
    elif report.key is not None:
        note_stored_thumbnail(tx, report.asset, report.key)
    elif isinstance(outcome, Snooze):
        # Our own storage failed, which counts as no attempt.
        note_thumbnail_failure(tx, report.asset.id, f"{outcome.code}: {outcome.message}", counted=False)


async def _note_progress(job: Job, asset_id: str) -> None:
    """Write that the thumbnail is being made. A database that is away does not stop the job; a lost job does."""
    with contextlib.suppress(DatabaseUnavailable):
        await job.progress(note_thumbnail_started, asset_id)


class Previews:
    """Runs the jobs that make previews."""

    def __init__(self, database: Database, storage: Storage, decoders: DecoderPool) -> None:
        self._database = database
        self._storage = storage
        self._decoders = decoders

    def kind(self) -> JobKind:
        return JobKind(
            PREVIEW,
            self.run,
            self.settle,
            lane=PREVIEW_LANE.name,
            priority=Priority.LOW,
            time_limit=60.0,
            max_attempts=len(PREVIEW_WAITS) + 1,
            back_off=Steps(PREVIEW_WAITS),
        )

    async def run(self, job: Job) -> Outcome:
        """Make the preview from our copy; wait while there is none."""
        asset = await self._database.read(find_asset, job.args["asset"])
        if asset is None:
            return Cancelled("The asset is gone.")
        if asset.preview_key is not None:
            return Done()
        if asset.key is None:
            if job.snoozes >= MOST_LOOKS:
                return Fail("NO_COPY", "There is still no copy of the file.")
            return Snooze(LOOK_SECONDS)
        try:
            file = await open_stored(self._storage, asset.key)
            made = await self._decoders.decode(DecodeRequest("preview", asset.content_type or ""), file)
            await self._storage.put(_preview_key(asset), made.picture, WEBP.content_type)
        except LeaseLost:
            raise
        except (MediaRefused, AssetGone) as error:
            return Fail(error.code, error.message)
        except (StorageError, DecodersBusy) as error:
            # Our own fault counts as no attempt.
            return Snooze(PREVIEW_STORAGE_SECONDS, code=error.code, message=error.message)
        except LongtakeError as error:
            return Retry(error.code, error.message)
        return Done(data=asset)

    def settle(self, tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        for one in sorted(settlements, key=lambda settlement: str(settlement.job.args["asset"])):
            # An end that only the engine saw (a crash, a time limit) brings no asset.
            asset_id: str = one.job.args["asset"]
            match one.outcome:
                case Done(data=Asset() as asset):
                    note_preview(tx, asset, _preview_key(asset))
                case Fail(code=code, message=message):
                    note_no_preview(tx, asset_id, f"{code}: {message}")
                case Cancelled(reason=reason):
                    note_no_preview(tx, asset_id, f"CANCELLED: {reason}")


def _preview_key(asset: Asset) -> str:
    return preview_key(asset.id, asset.file_number)


# -- making thumbnails ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ThumbnailMaker:
    """Makes thumbnails. With ``cloudflare``, those of videos at public addresses are requested there first."""

    storage: Storage
    client: HttpClient
    decoders: DecoderPool
    owner: AssetOwner = field(default_factory=AssetOwner)
    cloudflare: CloudflareFrames | None = None
    spools: Spools = field(default_factory=Spools)

    async def make(self, asset: Asset, *, of_copy: bool = False) -> Thumbnail:
        """Return a thumbnail. ``of_copy`` leaves out the source, which has used up its tries.

        Raises StorageError when our copy exists but cannot be read now, and the source fails too.
        """
        if asset.key is None:
            return await self._from_source(asset)
        try:
            return await self._from_file(await open_stored(self.storage, asset.key), asset, "copy")
        except (AssetGone, StorageError) as trouble:
            if of_copy or asset.source_url is None:
                raise
            try:
                return await self._from_source(asset)
            except LongtakeError as error:
                raise trouble from error

    async def _from_source(self, asset: Asset) -> Thumbnail:
        headers = await self.owner.download_headers(asset)
        # A source that needs our key must not be handed to Cloudflare.
        if self.cloudflare is not None and asset.kind == "video" and asset.source_url and not headers:
            try:
                made = await self.cloudflare.make(asset.source_url)
            except LongtakeError as error:
                log.info("Cloudflare gave no frame", action="thumbnail", asset_id=asset.id, code=error.code)
            else:
                metadata = {"method": "cloudflare", "version": VERSION, "of": "source"}
                return Thumbnail(made.picture, made.placeholder, None, None, None, metadata)
        async with open_source(self.client, asset.source_url or "", headers, self.spools) as file:
            return await self._from_file(file, asset, "source")

    async def _from_file(self, file: RangedFile, asset: Asset, of: str) -> Thumbnail:
        media = media_type(file.first[:FIRST_BYTES])
        if media is None or media.kind != asset.kind:
            raise MediaRefused(
                f"The file is not {'an image' if asset.kind == 'image' else 'a video'} of a supported type."
            )
        wish = DecodeRequest("still", media.content_type, WIDTH, HEIGHT, QUALITY, AT_SECONDS)
        made: DecodeResult = await self.decoders.decode(wish, file)
        metadata = {"method": "frames", "version": VERSION, "of": of, "bytes_read": made.bytes_read}
        return Thumbnail(made.picture, made.placeholder, made.width, made.height, made.duration_seconds, metadata)


class CloudflareFrames:
    """Frames of videos by Cloudflare Media Transformations, from a zone such as `https://media.example.com`.

    Its answers are decoded like any other untrusted file.
    """

    def __init__(self, client: HttpClient, decoders: DecoderPool, zone: str) -> None:
        self._client = client
        self._decoders = decoders
        self._zone = zone.rstrip("/")

    async def make(self, url: str) -> DecodeResult:
        """Return a frame of the video at this address, which Cloudflare itself must be able to open."""
        self._client.check_url(url)
        address = f"{self._zone}/cdn-cgi/media/{CLOUDFLARE_OPTIONS}/{url}"
        answer = await self._client.request("GET", address, seconds=CLOUDFLARE_SECONDS, most_bytes=CLOUDFLARE_BYTES)
        if answer.status != OK:
            raise ResultNotCopied(f"Cloudflare answers {answer.status} to the request for a frame.")
        if media_type(answer.body) != JPEG:
            raise MediaRefused("Cloudflare did not send a JPEG.", hint="")
        return await self._decoders.decode(
            DecodeRequest("still", JPEG.content_type), RangedFile(len(answer.body), answer.body)
        )
