"""The job kind `assets.thumbnail`: a picture of a finished file, at once, beside its copy and independent of it.

Neither job waits for the other, and neither can fail the other. While the storage takes nothing, the picture waits in
the database and is served from there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longtake.adapters.storage.keys import thumbnail_key
from longtake.capabilities.media.thumbnail_store import (
    give_up,
    keep_picture,
    note_failed,
    note_kept,
    note_processing,
    note_thumbnail,
    note_waiting,
    read_asset,
    waiting_picture,
)
from longtake.capabilities.media.tries import failed, wait
from longtake.engine.jobs import Job, JobRequest, Priority
from longtake.engine.kinds import JobKind, Settlement, Steps
from longtake.engine.lanes import Lane
from longtake.engine.outcomes import Cancelled, Done, Fail, Outcome, Retry, Snooze
from longtake.errors import (
    DatabaseUnavailable,
    DecodersBusy,
    LeaseLost,
    LongtakeError,
    StorageError,
    StorageUnavailable,
)
from longtake.services.assets import PREVIEW, THUMBNAIL, Asset

if TYPE_CHECKING:
    from longtake.adapters.storage import Storage
    from longtake.capabilities.media.thumbnail_maker import Still, Stills
    from longtake.db import Database, Transaction
    from longtake.engine.engine import Engine

THUMBNAIL_LANE = Lane(THUMBNAIL, max_running=50)
#: At once, 30 s after the first failure, 120 s after the second.
WAITS = (30.0, 120.0)
TIME_LIMIT = 60.0
#: A store that has not taken a picture by then counts as away, and is asked again so often.
PUT_SECONDS = 10.0
STORAGE_SECONDS = 30.0
BUSY_SECONDS = 5.0
JPEG = "image/jpeg"


@dataclass(frozen=True, slots=True)
class Picture:
    """What a try came to, for the transaction that ends it."""

    asset: Asset
    #: None when it was made by an earlier try, or could not be made.
    still: Still | None = None
    #: Under which key the storage has it; None while it has not.
    key: str | None = None


class Thumbnails:
    """Makes thumbnails."""

    def __init__(self, database: Database, engine: Callable[[], Engine], storage: Storage, stills: Stills) -> None:
        self._database = database
        self._engine = engine
        self._storage = storage
        self._stills = stills

    def kind(self) -> JobKind:
        """Return the kind to declare."""
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
        """Make the picture, unless an earlier try has, and put it into the storage."""
        asset = await self._database.read(read_asset, job.args["asset"])
        if asset is None:
            return Cancelled("The asset is gone.")
        if asset.thumbnail_key is not None:
            return Done()
        waiting = await self._database.read(waiting_picture, asset.id)
        if waiting is not None:
            return await self._put(job, Picture(asset), waiting)
        try:
            await _tell(job, asset.id)
            still = await self._stills.make(asset, of_copy=bool(job.args.get("of_copy")))
        except LeaseLost:
            raise
        except DecodersBusy as error:
            return wait(job, BUSY_SECONDS, error)
        except StorageError as error:
            # Our own trouble: the copy is there, and will give a picture when it can be read.
            return wait(job, STORAGE_SECONDS, error, data=Picture(asset))
        except LongtakeError as error:
            return failed(job, error, WAITS, Picture(asset))
        return await self._put(job, Picture(asset, still), still.picture)

    async def _put(self, job: Job, made: Picture, picture: bytes) -> Outcome:
        asset = made.asset
        key = thumbnail_key(asset.id, asset.file_number)
        try:
            await self._store(key, picture)
        except StorageError as error:
            return wait(job, STORAGE_SECONDS, error, data=made if made.still else None)
        # A moving preview is nice to have: it comes when nothing else is to be done.
        preview = JobRequest(PREVIEW, {"asset": asset.id}, key=asset.id, subject=asset.id, request_id=job.request_id)
        return Done(data=Picture(asset, made.still, key), then=[preview] if asset.kind == "video" else [])

    async def _store(self, key: str, picture: bytes) -> None:
        try:
            async with asyncio.timeout(PUT_SECONDS):
                await self._storage.put(key, picture, JPEG)
        except TimeoutError:
            raise StorageUnavailable(f"The storage has not taken the picture within {PUT_SECONDS:g} s.") from None

    # -- in the transaction that ends the try --------------------------------------------------------------------

    def settle(self, tx: Transaction, settlements: Sequence[Settlement]) -> None:
        """Write what the tries came to; in one order, so that two workers cannot deadlock."""
        for one in sorted(settlements, key=lambda settlement: str(settlement.job.args["asset"])):
            picture = one.outcome.data if isinstance(one.outcome.data, Picture) else None
            asset_id: str = one.job.args["asset"]
            match one.outcome:
                case Done() | Snooze() if picture is not None:
                    _settle_picture(tx, picture, one.outcome)
                case Retry(code=code, message=message):
                    note_failed(tx, asset_id, f"{code}: {message}", state="pending")
                case Fail(code=code, message=message):
                    self._settle_end(tx, one.job, f"{code}: {message}", picture)
                case Cancelled(reason=reason):
                    note_failed(tx, asset_id, f"CANCELLED: {reason}", state="failed")
                case _:
                    pass

    def _settle_end(self, tx: Transaction, job: Job, error: str, picture: Picture | None) -> None:
        """Give it up; but a copy that has come meanwhile and was never tried is a second chance, and the last."""
        asset_id: str = job.args["asset"]
        copy_tried = bool(job.args.get("of_copy")) or (picture is not None and picture.asset.key is not None)
        if give_up(tx, asset_id, error, copy_tried=copy_tried):
            args = {"asset": asset_id, "of_copy": True}
            self._engine().enqueue(tx, THUMBNAIL, args, key=asset_id, subject=asset_id, request_id=job.request_id)


def _settle_picture(tx: Transaction, picture: Picture, outcome: Done | Snooze) -> None:
    if picture.still is not None:
        note_thumbnail(tx, picture.asset, picture.still, picture.key)
        if picture.key is None:
            keep_picture(tx, picture.asset, picture.still.picture)
    elif picture.key is not None:
        note_kept(tx, picture.asset, picture.key)
    elif isinstance(outcome, Snooze):
        note_waiting(tx, picture.asset.id, f"{outcome.code}: {outcome.message}")


async def _tell(job: Job, asset_id: str) -> None:
    """Write that it is under way. That it cannot be written now is no reason to stop; that the job is lost is."""
    with contextlib.suppress(DatabaseUnavailable):
        await job.progress(note_processing, asset_id)
