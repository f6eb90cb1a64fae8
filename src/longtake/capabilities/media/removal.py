"""Removes assets: the row at once, the objects by the job `assets.delete`.

The job `assets.sweep_orphans` removes objects without a row.
"""

from __future__ import annotations

import time
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import structlog

from longtake.adapters.storage.errors import ObjectKeyInvalid, StorageError
from longtake.adapters.storage.keys import FOLDERS, check_key, result_folder
from longtake.capabilities.media.store import get_own_asset
from longtake.capability import AssetOwner
from longtake.engine.events import append_event
from longtake.engine.jobs import Job, Priority
from longtake.engine.kinds import Exponential, JobKind, Settlement
from longtake.engine.outcomes import Done, Outcome, Retry, Snooze
from longtake.engine.schedules import Schedule
from longtake.errors import StateConflict
from longtake.services.assets.store import DELETE, remove_assets, unreferenced_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake.adapters.storage import ObjectFacts, Storage
    from longtake.clock import Clock
    from longtake.db import Database, Transaction
    from longtake.engine.engine import Engine


log = structlog.get_logger(__name__)

#: In effect no limit: the job ends when the objects are gone.
MOST_ATTEMPTS = 10_000


def delete_asset(tx: Transaction, engine: Engine, user_id: str, asset_id: str, owner: AssetOwner) -> None:
    """Remove the user's asset. Raises StateConflict while a task, a run or a reference needs it."""
    asset = get_own_asset(tx, asset_id, user_id)
    if asset.role == "result" and asset.task_id is not None:
        message = f"The asset {asset_id} is a result: it goes with its task {asset.task_id}."
        raise StateConflict(message, hint=f"DELETE /v1/tasks/{asset.task_id} deletes both.")
    if asset.role == "scene":
        message = f"The asset {asset_id} is the image of a scene: it goes with its run."
        raise StateConflict(message, hint="DELETE /v1/runs/{run_id} deletes both.")
    if asset.role == "reference":
        owner.require_unused(tx, user_id, asset_id)
    if not remove_assets(tx, engine, [asset_id]):
        # A concurrent request has just deleted it: raise NotFound, as the next request will.
        get_own_asset(tx, asset_id, user_id)


class ObjectRemoval:
    """Removes the objects of assets whose rows are gone, and tries until they are gone too."""

    def __init__(self, database: Database, storage: Storage) -> None:
        self._database = database
        self._storage = storage

    def kind(self) -> JobKind:
        back_off = Exponential(first=5.0, most=3600.0)
        return JobKind(
            DELETE, self.run, priority=Priority.LOW, time_limit=300.0, max_attempts=MOST_ATTEMPTS, back_off=back_off
        )

    async def run(self, job: Job) -> Outcome:
        """Remove the named objects, and those that failed runs left beside them. Safe to repeat."""
        try:
            keys = await self._keys(job.args["assets"], job.args["keys"])
            await self._storage.delete(keys)
        except StorageError as error:
            return Retry(error.code, error.message)
        return Done()

    async def _keys(self, asset_ids: list[str], named: list[str]) -> list[str]:
        keys = {key for key in named if _is_key(key)}
        for asset_id in asset_ids:
            keys |= {one.key async for one in self._storage.list(result_folder(asset_id))}
        # An object that another row names stays: an application may have written one for the same file.
        return await self._database.read(unreferenced_keys, sorted(keys))


def _is_key(key: str) -> bool:
    """Return whether the key is valid. A row that an application wrote may hold anything; it must not block others."""
    try:
        check_key(key)
    except ObjectKeyInvalid:
        log.warning("a deleted row named an invalid object key", action="delete")
        return False
    return True


SWEEP = "assets.sweep_orphans"
EVERY_SECONDS = 86_400.0
YOUNGEST = timedelta(hours=24)
PAGE = 500
#: Then the job goes back to the queue, so that it never occupies a worker for long.
RUN_SECONDS = 5.0


class SweepProgress(NamedTuple):
    """How far a sweep is (a folder, and the last key seen there), and its counts so far."""

    folder: int = 0
    after: str | None = None
    looked_at: int = 0
    removed: int = 0
    uploads: int = 0


class Orphans:
    """Runs the sweeps."""

    def __init__(self, database: Database, storage: Storage, clock: Clock) -> None:
        self._database = database
        self._storage = storage
        self._clock = clock

    def kind(self) -> JobKind:
        return JobKind(SWEEP, self.run, self.settle, priority=Priority.LOW, time_limit=600.0, max_attempts=10)

    def schedule(self) -> Schedule:
        return Schedule(SWEEP, SWEEP, every=EVERY_SECONDS)

    async def run(self, job: Job) -> Outcome:
        """Check all folders page by page, starting where the last run stopped."""
        progress = SweepProgress(*job.memo) if job.memo else SweepProgress()
        stop_at = time.monotonic() + RUN_SECONDS
        before = self._clock.now() - YOUNGEST
        try:
            while progress.folder < len(FOLDERS):
                if time.monotonic() >= stop_at:
                    return Snooze(0, memo=list(progress), progress=True)
                progress = await self._sweep_page(progress, before)
            progress = progress._replace(uploads=await self._storage.remove_unfinished(before))
        except StorageError as error:
            return Retry(error.code, error.message, memo=list(progress))
        return Done(data=progress)

    def settle(self, tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        """Write the counts as an event, which `longtake jobs show` prints."""
        for one in settlements:
            if isinstance(one.outcome, Done):
                progress: SweepProgress = one.outcome.data
                data = {"looked_at": progress.looked_at, "removed": progress.removed, "uploads": progress.uploads}
                append_event(tx, "assets.swept", subject=one.job.id, data=data)

    async def _sweep_page(self, progress: SweepProgress, before: datetime) -> SweepProgress:
        """Remove the orphans among the next objects; return the new progress."""
        found = await self._page(FOLDERS[progress.folder], progress.after)
        orphans = await self._orphans([one.key for one in found if one.modified_at < before], before)
        if orphans:
            await self._storage.delete(orphans)
            log.info("objects without a row removed", action="sweep", objects=len(orphans))
        progress = progress._replace(looked_at=progress.looked_at + len(found), removed=progress.removed + len(orphans))
        if len(found) < PAGE:
            return progress._replace(folder=progress.folder + 1, after=None)
        return progress._replace(after=found[-1].key)

    async def _page(self, folder: str, after: str | None) -> list[ObjectFacts]:
        found: list[ObjectFacts] = []
        async with aclosing(self._storage.list(folder, after)) as listed:
            async for one in listed:
                found.append(one)
                if len(found) == PAGE:
                    break
        return found

    async def _orphans(self, keys: list[str], before: datetime) -> list[str]:
        """Return the old objects that no row names, neither now nor after another look at the objects."""
        suspects = await self._database.read(unreferenced_keys, keys)
        facts = [await self._storage.facts(key) for key in suspects]
        still_old = [one.key for one in facts if one is not None and one.modified_at < before]
        return await self._database.read(unreferenced_keys, still_old)
