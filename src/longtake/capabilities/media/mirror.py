"""The job kind `assets.mirror`: copies a result or an import from its source to our storage, whole or not at all.

It never changes the task: a completed task stays completed. ``settle`` writes the result of each try in the
transaction that ends or requeues the job.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from longtake.capabilities.media.copier import Copier, Copy
from longtake.capabilities.media.mirror_retry import (
    IMPORT,
    LATER_TRY_SECONDS,
    MOST_FRESH_SOURCES,
    RENEW_SECONDS,
    WAITS,
    MirrorReport,
    fresh_sources,
    judge_failure,
    needs_alert,
    runs,
)
from longtake.capabilities.media.store import (
    ExpiringAsset,
    alert_not_saved,
    announce,
    note_failure,
    note_fresh_source,
    note_stored,
    read_expiring_asset,
)
from longtake.capability import AssetOwner, FreshSource
from longtake.engine.errors import LeaseLost
from longtake.engine.jobs import Priority
from longtake.engine.kinds import JobKind, Settlement, Steps
from longtake.engine.lanes import Lane
from longtake.engine.outcomes import Cancelled, Done, Fail, Outcome, Retry, Snooze
from longtake.errors import LongtakeError
from longtake.services.assets import MIRROR, Asset
from longtake.services.assets.errors import SourceGone, SourceUnknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake.adapters.net import HttpClient
    from longtake.adapters.storage import Storage
    from longtake.db import Database, Transaction
    from longtake.engine.engine import Engine
    from longtake.engine.jobs import Job

#: The most copies at once on all machines; each takes some 20 MB at most.
MIRROR_LANE = Lane(MIRROR, max_running=50)
#: In effect no limit: the end of the source ends the tries.
MOST_ATTEMPTS = 10_000
#: Enough for two copies, from the old and from a fresh address, and for asking the provider in between.
TIME_LIMIT = 2 * LATER_TRY_SECONDS + 40.0


class Mirror:
    """Copies results and imports. Their ``owner`` learns of those that can no longer be copied."""

    def __init__(
        self,
        database: Database,
        storage: Storage,
        client: HttpClient,
        most_bytes: int,
        owner: AssetOwner | None = None,
        random_source: random.Random | None = None,
    ) -> None:
        self._database = database
        self._copier = Copier(storage, client, most_bytes)
        self._owner = owner or AssetOwner()
        self._random = random_source or random.Random()

    def kind(self) -> JobKind:
        return JobKind(
            MIRROR,
            self.run,
            self.settle,
            lane=MIRROR_LANE.name,
            priority=Priority.TOP,
            time_limit=TIME_LIMIT,
            max_attempts=MOST_ATTEMPTS,
            back_off=Steps(WAITS),
        )

    async def run(self, job: Job) -> Outcome:
        """Copy the file from its address, or from a fresh one if that has ended and the provider gives another."""
        found = await self._database.read(read_expiring_asset, job.args["asset"])
        if found is None:
            return Cancelled("The asset is gone.")
        if found.asset.mirror_state == "completed":
            return Done()
        fresh = None
        try:
            fresh = await self._renew(job, found)
            copy = None if fresh else await self._copy_from_row(job, found)
            if copy is None:
                fresh = fresh or await self._ask_provider(job, found)
                copy = await self._copier.copy(job, found.asset, fresh.url, fresh.headers)
        except LeaseLost:
            raise
        except LongtakeError as error:
            return judge_failure(job, found, error, fresh, self._random)
        return Done(data=MirrorReport(found.asset, copy, fresh))

    async def _copy_from_row(self, job: Job, found: ExpiringAsset) -> Copy | None:
        """Copy from the address in the row. Returns None when it has ended and a fresh one is worth asking for."""
        asset = found.asset
        is_import = asset.role == IMPORT
        ended = found.seconds_left is not None and found.seconds_left <= 0
        if asset.source_url is None or (ended and not is_import):
            return None
        headers = await self._owner.download_headers(asset)
        try:
            return await self._copier.copy(job, asset, asset.source_url, headers)
        except SourceGone:
            # No provider has another address of an import.
            if is_import:
                raise
            return None

    async def _renew(self, job: Job, found: ExpiringAsset) -> FreshSource | None:
        """Return a fresh address shortly before one that has failed ends; None if it is too early or there is none."""
        left = found.seconds_left
        if runs(job) <= 1 or found.asset.role == IMPORT or left is None or not 0 < left <= RENEW_SECONDS:
            return None
        try:
            return await self._ask_provider(job, found)
        except (SourceGone, SourceUnknown):
            return None

    async def _ask_provider(self, job: Job, found: ExpiringAsset) -> FreshSource:
        gone = SourceGone("The address of the result has ended, and the provider has no other.")
        if fresh_sources(job) >= MOST_FRESH_SOURCES:
            raise gone
        try:
            fresh = await self._owner.fresh_source(job, found.asset)
        except LongtakeError as error:
            raise SourceUnknown(f"The provider could not be asked for the result again: {error.message}") from error
        if fresh is None:
            raise gone
        return fresh

    # -- in the transaction that ends the try --------------------------------------------------------------------

    def settle(self, tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        """Write the results of the tries, sorted by asset so that two workers cannot deadlock."""
        lost: list[Asset] = []
        for one in sorted(settlements, key=lambda settlement: str(settlement.job.args["asset"])):
            report = one.outcome.data if isinstance(one.outcome.data, MirrorReport) else None
            if report is not None and report.fresh is not None:
                note_fresh_source(tx, report.asset.id, report.fresh)
            if self._settle_one(tx, one.job, one.outcome, report) and report is not None:
                lost.append(report.asset)
        # Tasks and balances after all assets, in the order of locks.
        if lost:
            self._owner.lost(tx, lost)

    def _settle_one(self, tx: Transaction, job: Job, outcome: Outcome, report: MirrorReport | None) -> bool:
        """Write one result; return whether the file is lost."""
        asset_id: str = job.args["asset"]
        match outcome:
            case Done():
                if report is not None and report.copy is not None:
                    note_stored(tx, report.asset, report.copy.stored, report.copy.content_type)
            case Retry(code=code, message=message) | Snooze(code=code, message=message):
                error = f"{code}: {message}"
                counted = report is not None and report.counted
                failed = note_failure(tx, asset_id, error, counted=counted)
                role = report.asset.role if report is not None else ""
                if failed and needs_alert(role, job.args.get("failures", 0) + runs(job)):
                    alert_not_saved(tx, asset_id, error)
            case Fail(code=code, message=message):
                return _settle_end(tx, asset_id, f"{code}: {message}", report)
            case Cancelled(reason=reason):
                note_failure(tx, asset_id, f"CANCELLED: {reason}", state="failed")
        return False


def _settle_end(tx: Transaction, asset_id: str, error: str, report: MirrorReport | None) -> bool:
    """Write that the mirror is given up; return whether the file is lost.

    Without a report only the engine saw the end (its workers died).
    """
    state = report.given_up if report is not None and report.given_up else "failed"
    counted = report is not None and report.counted
    if not note_failure(tx, asset_id, error, state=state, counted=counted):
        return False
    alert_not_saved(tx, asset_id, error)
    if report is None or not report.given_up:
        return False
    announce(tx, report.asset, state)
    return report.asset.key is None
