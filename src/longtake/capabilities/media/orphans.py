"""The job kind `assets.sweep_orphans`: objects that no row names, and uploads that nobody finished, are removed.

A worker that died between writing an object and writing its row leaves one; so does a run that lost its lease. A row is
written within minutes of its object, so what is a day old and has none will never have one. It is looked for twice all
the same, the second time right before it is removed.
"""

from __future__ import annotations

import time
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import structlog

from longtake.adapters.storage.keys import FOLDERS
from longtake.engine.events import append_event
from longtake.engine.jobs import Job, Priority
from longtake.engine.kinds import JobKind, Settlement
from longtake.engine.outcomes import Done, Outcome, Retry, Snooze
from longtake.engine.schedules import Schedule
from longtake.errors import StorageError
from longtake.services.assets.store import unreferenced_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake.adapters.storage import Facts, Storage
    from longtake.clock import Clock
    from longtake.db import Database, Transaction

log = structlog.get_logger(__name__)

SWEEP = "assets.sweep_orphans"
EVERY_SECONDS = 86_400.0
YOUNGEST = timedelta(hours=24)
PAGE = 500
#: Then the job waits its turn again, so that it never holds a worker's place for long.
RUN_SECONDS = 5.0


class Place(NamedTuple):
    """Where the walk is: a folder, and the last key that was looked at there; and what it came to so far."""

    folder: int = 0
    after: str | None = None
    looked_at: int = 0
    removed: int = 0
    uploads: int = 0


class Orphans:
    """Sweeps."""

    def __init__(self, database: Database, storage: Storage, clock: Clock) -> None:
        self._database = database
        self._storage = storage
        self._clock = clock

    def kind(self) -> JobKind:
        """Return the kind to declare."""
        return JobKind(SWEEP, self.run, self.settle, priority=Priority.LOW, time_limit=600.0, max_attempts=10)

    def schedule(self) -> Schedule:
        """Return when it runs."""
        return Schedule(SWEEP, SWEEP, every=EVERY_SECONDS)

    async def run(self, job: Job) -> Outcome:
        """Look through all folders, page by page, and go on where the last run stopped."""
        place = Place(*job.memo) if job.memo else Place()
        stop_at = time.monotonic() + RUN_SECONDS
        before = self._clock.now() - YOUNGEST
        try:
            while place.folder < len(FOLDERS):
                if time.monotonic() >= stop_at:
                    return Snooze(0, memo=list(place))
                place = await self._sweep_page(place, before)
            place = place._replace(uploads=await self._storage.remove_unfinished(before))
        except StorageError as error:
            return Retry(error.code, error.message, memo=list(place))
        return Done(data=place)

    def settle(self, tx: Transaction, settlements: Sequence[Settlement]) -> None:
        """Write what a sweep came to where `longtake jobs show` has it."""
        for one in settlements:
            if isinstance(one.outcome, Done):
                place: Place = one.outcome.data
                data = {"looked_at": place.looked_at, "removed": place.removed, "uploads": place.uploads}
                append_event(tx, "assets.swept", subject=one.job.id, data=data)

    async def _sweep_page(self, place: Place, before: datetime) -> Place:
        """Remove the orphans among the next objects; return where to go on."""
        found = await self._page(FOLDERS[place.folder], place.after)
        orphans = await self._orphans([one.key for one in found if one.modified_at < before], before)
        if orphans:
            await self._storage.delete(orphans)
            log.info("objects without a row removed", action="sweep", objects=len(orphans))
        place = place._replace(looked_at=place.looked_at + len(found), removed=place.removed + len(orphans))
        if len(found) < PAGE:
            return place._replace(folder=place.folder + 1, after=None)
        return place._replace(after=found[-1].key)

    async def _page(self, folder: str, after: str | None) -> list[Facts]:
        found: list[Facts] = []
        async with aclosing(self._storage.list(folder, after)) as listed:
            async for one in listed:
                found.append(one)
                if len(found) == PAGE:
                    break
        return found

    async def _orphans(self, keys: list[str], before: datetime) -> list[str]:
        """Return which of the old objects no row names, neither now nor once they have been looked at again."""
        suspects = await self._database.read(unreferenced_keys, keys)
        facts = [await self._storage.facts(key) for key in suspects]
        still_old = [one.key for one in facts if one is not None and one.modified_at < before]
        return await self._database.read(unreferenced_keys, still_old)
