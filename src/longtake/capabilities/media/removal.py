"""Removes assets: a user's request deletes the row, and the job `assets.delete` deletes the objects afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from longtake.adapters.storage.keys import check_key, result_folder
from longtake.capabilities.media.store import get_own_asset
from longtake.capability import AssetOwner
from longtake.engine.jobs import Job, Priority
from longtake.engine.kinds import Exponential, JobKind
from longtake.engine.outcomes import Done, Outcome, Retry
from longtake.errors import ObjectKeyInvalid, StateConflict, StorageError
from longtake.services.assets.store import DELETE, remove_assets, unreferenced_keys

if TYPE_CHECKING:
    from longtake.adapters.storage import Storage
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
        """Return the job kind."""
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
