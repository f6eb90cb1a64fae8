"""The job kind `assets.thumbnail`: makes a thumbnail of a finished file, at once and independently of its copy.

Neither job waits for the other, and neither can fail the other. While the storage is away, the thumbnail waits in the
database and is served from there.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, LargeBinary, Table, Text, case, delete, func, insert, select, update

from longtake.adapters.decoder.errors import DecodersBusy
from longtake.adapters.storage.errors import StorageError, StorageUnavailable
from longtake.adapters.storage.keys import thumbnail_key
from longtake.capabilities.media.store import find_asset
from longtake.db.dialects import NOW, Identifier
from longtake.db.errors import DatabaseUnavailable
from longtake.engine.errors import LeaseLost
from longtake.engine.events import append_event
from longtake.engine.jobs import Job, JobRequest, Priority
from longtake.engine.kinds import JobKind, Settlement, Steps
from longtake.engine.lanes import Lane
from longtake.engine.outcomes import Cancelled, Done, Fail, Outcome, Retry, Snooze
from longtake.engine.tables import metadata
from longtake.errors import LongtakeError
from longtake.services.assets import PREVIEW, THUMBNAIL, Asset, assets
from longtake.services.assets.store import stored_data

if TYPE_CHECKING:
    from longtake.adapters.storage import Storage
    from longtake.capabilities.media.thumbnail_maker import Thumbnail, ThumbnailMaker
    from longtake.db import Database, Transaction
    from longtake.engine.engine import Engine


#: Thumbnails that wait for the storage. They are deleted with their asset.
asset_pictures = Table(
    "asset_pictures",
    metadata,
    Column("asset_id", Identifier, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("picture", LargeBinary, nullable=False),
)

ERROR_LIMIT = 500


def waiting_thumbnail(tx: Transaction, asset_id: str) -> bytes | None:
    """Return a thumbnail that waits for the storage, or None."""
    found = tx.execute(select(asset_pictures.c.picture).where(asset_pictures.c.asset_id == asset_id)).scalar()
    return None if found is None else bytes(found)


def keep_thumbnail(tx: Transaction, asset: Asset, picture: bytes) -> None:
    """Keep a thumbnail until the storage accepts it, unless the asset has been deleted."""
    if find_asset(tx, asset.id) is not None:
        tx.execute(insert(asset_pictures).values(asset_id=asset.id, user_id=asset.user_id, picture=picture))


def note_processing(tx: Transaction, asset_id: str) -> None:
    """Write that a thumbnail is being made."""
    _change(tx, asset_id, thumbnail_state="processing", thumbnail_tried_at=NOW)


def note_thumbnail(tx: Transaction, asset: Asset, thumbnail: Thumbnail, key: str | None) -> None:
    """Write the thumbnail's key, with the size and duration of the file. The first thumbnail wins."""
    changed = _change(
        tx,
        asset.id,
        thumbnail_state="completed",
        thumbnail_attempts=assets.c.thumbnail_attempts + 1,
        thumbnail_error=None,
        thumbnail_tried_at=NOW,
        thumbnail_at=NOW,
        thumbnail_key=key,
        thumbnail_metadata=dict(thumbnail.metadata),
        placeholder=_data_url(thumbnail.placeholder),
        preview_state="none" if key is None or asset.kind == "image" else "pending",
        width=func.coalesce(assets.c.width, thumbnail.width),
        height=func.coalesce(assets.c.height, thumbnail.height),
        duration_seconds=func.coalesce(assets.c.duration_seconds, thumbnail.duration_seconds),
    )
    if changed:
        data = {
            **stored_data(asset),
            "width": asset.width or thumbnail.width,
            "height": asset.height or thumbnail.height,
        }
        append_event(tx, "asset.thumbnail", subject=asset.id, user_id=asset.user_id, data=data)


def note_stored_thumbnail(tx: Transaction, asset: Asset, key: str) -> None:
    """Write the key of a thumbnail that has waited for the storage."""
    preview = "none" if asset.kind == "image" else "pending"
    _change(tx, asset.id, thumbnail_key=key, thumbnail_state="completed", preview_state=preview)
    tx.execute(delete(asset_pictures).where(asset_pictures.c.asset_id == asset.id))


def note_waiting(tx: Transaction, asset_id: str, error: str) -> None:
    """Write an error that counts as no attempt: our own storage failed."""
    _change(tx, asset_id, thumbnail_state="pending", thumbnail_error=error[:ERROR_LIMIT], thumbnail_tried_at=NOW)


def note_failed(tx: Transaction, asset_id: str, error: str, *, state: str) -> None:
    """Write the error, unless a thumbnail exists."""
    _change(tx, asset_id, thumbnail_state=state, **_failure(error))


def give_up(tx: Transaction, asset_id: str, error: str, *, copy_tried: bool) -> bool:
    """Write that the last try failed. Returns True when an untried copy exists, which is worth another job.

    One statement decides by the current row: a copy that completes at this moment is either seen here, or its trigger
    sees the failure and starts the thumbnail.
    """
    state = "failed" if copy_tried else case((assets.c.key.is_(None), "failed"), else_="pending")
    change = update(assets).where(*_without(asset_id)).values(thumbnail_state=state, **_failure(error))
    return tx.execute(change.returning(assets.c.thumbnail_state)).scalar() == "pending"


def note_preview(tx: Transaction, asset: Asset, key: str) -> None:
    """Write the key of the preview."""
    values = {"preview_state": "completed", "preview_error": None, "preview_key": key}
    tx.execute(update(assets).where(assets.c.id == asset.id).values(**values))
    append_event(tx, "asset.preview", subject=asset.id, user_id=asset.user_id, data=stored_data(asset))


def note_no_preview(tx: Transaction, asset_id: str, error: str) -> None:
    """Write why there is no preview, unless one exists."""
    without = (assets.c.id == asset_id, assets.c.preview_key.is_(None))
    tx.execute(update(assets).where(*without).values(preview_state="failed", preview_error=error[:ERROR_LIMIT]))


def _data_url(picture: bytes) -> str:
    """Return a tiny picture as a `data:` URL, which pages show until the thumbnail has loaded."""
    return f"data:image/webp;base64,{base64.b64encode(picture).decode()}"


def _failure(error: str) -> dict[str, Any]:
    attempts = assets.c.thumbnail_attempts + 1
    return {"thumbnail_attempts": attempts, "thumbnail_error": error[:ERROR_LIMIT], "thumbnail_tried_at": NOW}


def _change(tx: Transaction, asset_id: str, **values: Any) -> bool:
    return tx.execute(update(assets).where(*_without(asset_id)).values(**values)).rowcount > 0


def _without(asset_id: str) -> tuple[Any, ...]:
    """Return the conditions for an asset without a stored thumbnail."""
    return assets.c.id == asset_id, assets.c.thumbnail_key.is_(None)


THUMBNAIL_LANE = Lane(THUMBNAIL, max_running=50)
#: At once, 30 s after the first failure, 120 s after the second.
WAITS = (30.0, 120.0)
TIME_LIMIT = 60.0
#: A store that has not accepted a thumbnail by then counts as away.
PUT_SECONDS = 10.0
#: How long to wait for a store that is away, and for a free decoder.
STORAGE_SECONDS = 30.0
BUSY_SECONDS = 5.0
JPEG = "image/jpeg"


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
        """Return the job kind."""
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
                await self._storage.put(key, picture, JPEG)
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
                    note_failed(tx, asset_id, f"{code}: {message}", state="pending")
                case Fail(code=code, message=message):
                    _settle_end(tx, engine, one.job, f"{code}: {message}", report)
                case Cancelled(reason=reason):
                    note_failed(tx, asset_id, f"CANCELLED: {reason}", state="failed")
                case _:
                    pass


def _settle_end(tx: Transaction, engine: Engine, job: Job, error: str, report: ThumbnailReport | None) -> None:
    """Give up, unless a copy has come that was not tried: it gets one more job, the last."""
    asset_id: str = job.args["asset"]
    copy_tried = bool(job.args.get("of_copy")) or (report is not None and report.asset.key is not None)
    if give_up(tx, asset_id, error, copy_tried=copy_tried):
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
        note_waiting(tx, report.asset.id, f"{outcome.code}: {outcome.message}")


async def _note_progress(job: Job, asset_id: str) -> None:
    """Write that the thumbnail is being made. A database that is away does not stop the job; a lost job does."""
    with contextlib.suppress(DatabaseUnavailable):
        await job.progress(note_processing, asset_id)
