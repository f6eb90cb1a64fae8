"""The job kind `assets.delete`: objects of assets whose rows are gone, tried until they are gone as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from longtake.adapters.storage.keys import check_key, result_folder
from longtake.engine.jobs import Job, Priority
from longtake.engine.kinds import Exponential, JobKind
from longtake.engine.outcomes import Done, Outcome, Retry
from longtake.errors import ObjectKeyInvalid, StorageError
from longtake.services.assets.store import DELETE, unreferenced_keys

if TYPE_CHECKING:
    from longtake.adapters.storage import Storage
    from longtake.db import Database

log = structlog.get_logger(__name__)

#: Their end is that they are gone, not a number of tries.
MOST_ATTEMPTS = 10_000


class Deleting:
    """Removes objects."""

    def __init__(self, database: Database, storage: Storage) -> None:
        self._database = database
        self._storage = storage

    def kind(self) -> JobKind:
        """Return the kind to declare."""
        back_off = Exponential(first=5.0, most=3600.0)
        return JobKind(
            DELETE, self.run, priority=Priority.LOW, time_limit=300.0, max_attempts=MOST_ATTEMPTS, back_off=back_off
        )

    async def run(self, job: Job) -> Outcome:
        """Remove what is named, and what runs that came to nothing left beside it. Again removes nothing more."""
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
        # An application may have written a second row for the same file: then it stays.
        return await self._database.read(unreferenced_keys, sorted(keys))


def _is_key(key: str) -> bool:
    """Say whether it can be one: a row that an application wrote may hold anything, and must not hold up the others."""
    try:
        check_key(key)
    except ObjectKeyInvalid:
        log.warning("what a row named is no key of an object", action="delete")
        return False
    return True
