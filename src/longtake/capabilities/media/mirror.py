"""The job kind `assets.mirror`: a result from its source to our storage, whole or not at all.

It never touches the task: a completed task stays completed. What the tries came to is written by ``settle`` in the
transaction that ends or puts back the job.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from longtake.capabilities.media.copier import Copied, Copier
from longtake.capabilities.media.mirror_failure import Report, judge_failure, times_asked
from longtake.capabilities.media.mirror_retry import (
    IMPORT,
    LATER_TRY_SECONDS,
    MOST_FRESH_SOURCES,
    RENEW_SECONDS,
    WAITS,
    needs_somebody,
)
from longtake.capabilities.media.mirror_store import (
    Mirroring,
    alert_not_saved,
    note_failure,
    note_fresh_source,
    note_stored,
    read_mirroring,
    tell_given_up,
)
from longtake.capabilities.media.sources import FreshSource, PlainSources, ResultSources
from longtake.engine.jobs import Priority
from longtake.engine.kinds import JobKind, Settlement, Steps
from longtake.engine.lanes import Lane
from longtake.engine.outcomes import Cancelled, Done, Fail, Outcome, Retry
from longtake.errors import LeaseLost, LongtakeError, SourceGone, SourceUnknown
from longtake.services.assets import MIRROR, Asset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake.adapters.net import HttpClient
    from longtake.adapters.storage import Storage
    from longtake.db import Database, Transaction
    from longtake.engine.jobs import Job

#: Each copy holds some 20 MB at most; this many at once, over all machines.
MIRROR_LANE = Lane(MIRROR, max_running=50)
#: The source is what ends the tries, not their number.
MOST_ATTEMPTS = 10_000
#: Two copies, from the old and from a fresh address, and the question in between.
TIME_LIMIT = 2 * LATER_TRY_SECONDS + 40.0

OnLost = Callable[["Transaction", Asset], None]


class Mirror:
    """Copies results. ``on_lost`` is called once for each result of which no copy can be had any more."""

    def __init__(
        self,
        database: Database,
        storage: Storage,
        client: HttpClient,
        *,
        most_bytes: int,
        sources: ResultSources | None = None,
        on_lost: OnLost | None = None,
        random_source: random.Random | None = None,
    ) -> None:
        self._database = database
        self._copier = Copier(storage, client, most_bytes)
        self._sources = sources or PlainSources()
        self._on_lost = on_lost
        self._random = random_source or random.Random()

    def kind(self) -> JobKind:
        """Return the kind to declare."""
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
        """Copy the result from where it is; from a fresh address, if the provider has one, where that has ended."""
        found = await self._database.read(read_mirroring, job.args["asset"])
        if found is None:
            return Cancelled("The asset is gone.")
        if found.asset.mirror_state == "completed":
            return Done()
        fresh = None
        try:
            fresh = await self._renewed(job, found)
            copied = None if fresh else await self._copy_from_row(job, found)
            if copied is None:
                fresh = fresh or await self._ask(job, found)
                copied = await self._copier.copy(job, found.asset, fresh.url, fresh.headers)
        except LeaseLost:
            raise
        except LongtakeError as error:
            return judge_failure(job, found, error, fresh, self._random)
        return Done(data=Report(found.asset, copied, fresh))

    async def _copy_from_row(self, job: Job, found: Mirroring) -> Copied | None:
        """Copy from the address in the row. None: it has ended, and it is worth asking for another."""
        asset = found.asset
        brought_in = asset.role == IMPORT
        ended = found.seconds_left is not None and found.seconds_left <= 0
        if asset.source_url is None or (ended and not brought_in):
            return None
        headers = await self._sources.download_headers(asset)
        try:
            return await self._copier.copy(job, asset, asset.source_url, headers)
        except SourceGone:
            # Nobody has another address of what somebody brought in.
            if brought_in:
                raise
            return None

    async def _renewed(self, job: Job, found: Mirroring) -> FreshSource | None:
        """Ask for another address shortly before this one ends, where it has failed before. None: there is no other."""
        left = found.seconds_left
        if job.attempt <= 1 or found.asset.role == IMPORT or left is None or not 0 < left <= RENEW_SECONDS:
            return None
        try:
            return await self._ask(job, found)
        except (SourceGone, SourceUnknown):
            return None

    async def _ask(self, job: Job, found: Mirroring) -> FreshSource:
        gone = SourceGone("The address of the result has ended, and the provider gives no other.")
        if times_asked(job) >= MOST_FRESH_SOURCES:
            raise gone
        try:
            fresh = await self._sources.fresh(found.asset)
        except LongtakeError as error:
            raise SourceUnknown(f"The provider could not be asked for the result again: {error.message}") from error
        if fresh is None:
            raise gone
        return fresh

    # -- in the transaction that ends the try --------------------------------------------------------------------

    def settle(self, tx: Transaction, settlements: Sequence[Settlement]) -> None:
        """Write what the tries came to; in one order, so that two workers cannot deadlock."""
        for one in sorted(settlements, key=lambda settlement: str(settlement.job.args["asset"])):
            report = one.outcome.data if isinstance(one.outcome.data, Report) else None
            if report is not None and report.fresh is not None:
                note_fresh_source(tx, report.asset.id, report.fresh)
            self._settle_one(tx, one.job, one.outcome, report)

    def _settle_one(self, tx: Transaction, job: Job, outcome: Outcome, report: Report | None) -> None:
        asset_id: str = job.args["asset"]
        match outcome:
            case Done():
                if report is not None and report.copied is not None:
                    note_stored(tx, report.asset, report.copied.stored, report.copied.content_type)
            case Retry(code=code, message=message):
                error = f"{code}: {message}"
                counted = report is not None and report.counted
                failed = note_failure(tx, asset_id, error, counted=counted)
                role = report.asset.role if report is not None else ""
                if failed and needs_somebody(role, job.args.get("failures", 0) + job.attempt):
                    alert_not_saved(tx, asset_id, error)
            case Fail(code=code, message=message):
                self._settle_end(tx, asset_id, f"{code}: {message}", report)
            case Cancelled(reason=reason):
                note_failure(tx, asset_id, f"CANCELLED: {reason}", state="failed")

    def _settle_end(self, tx: Transaction, asset_id: str, error: str, report: Report | None) -> None:
        """Give it up. An end that only the engine saw (its workers died) leaves the source alive, and hope."""
        state = report.given_up if report is not None and report.given_up else "failed"
        counted = report is not None and report.counted
        if not note_failure(tx, asset_id, error, state=state, counted=counted):
            return
        alert_not_saved(tx, asset_id, error)
        if report is not None and report.given_up:
            tell_given_up(tx, report.asset, state)
            if self._on_lost is not None and report.asset.key is None:
                self._on_lost(tx, report.asset)
