"""The job kind `assets.mirror`: a result from its source to our storage, whole or not at all.

It never touches the task: a completed task stays completed. What the tries came to is written by ``settle`` in the
transaction that ends or puts back the job.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from longtake.asset_registry import MIRROR, Asset
from longtake.assets.copying import Copied, Copier
from longtake.assets.patience import (
    ASKING_SECONDS,
    FAILURES_BEFORE_ALERT,
    LATER_TRY_SECONDS,
    MOST_FRESH_SOURCES,
    MOST_TRIES_WITHOUT_END,
    WAITS,
    wait_before_next_try,
)
from longtake.assets.sources import FreshSource, PlainSources, ResultSources
from longtake.assets.store import (
    Mirroring,
    alert_not_saved,
    note_failure,
    note_fresh_source,
    note_stored,
    read_mirroring,
    tell_given_up,
)
from longtake.engine.jobs import Priority
from longtake.engine.kinds import JobKind, Settlement, Steps
from longtake.engine.lanes import Lane
from longtake.engine.outcomes import Cancelled, Done, Fail, Outcome, Retry
from longtake.errors import (
    AnswerTooLarge,
    LeaseLost,
    LongtakeError,
    ObjectTooLarge,
    SourceGone,
    SourceUnknown,
    StorageError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake.db import Database, Transaction
    from longtake.engine.jobs import Job
    from longtake.net import HttpClient
    from longtake.storage import Storage

#: Each copy holds some 20 MB at most; this many at once, over all machines.
MIRROR_LANE = Lane(MIRROR, max_running=50)
#: The source is what ends the tries, not their number.
MOST_ATTEMPTS = 10_000
#: Two copies, from the old and from a fresh address, and the question in between.
TIME_LIMIT = 2 * LATER_TRY_SECONDS + 40.0

OnLost = Callable[["Transaction", Asset], None]


@dataclass(frozen=True, slots=True)
class Report:
    """What a try came to, for the transaction that ends it."""

    asset: Asset
    copied: Copied | None = None
    fresh: FreshSource | None = None
    #: Whether the source itself failed; our own storage's trouble is not held against it.
    counted: bool = False
    #: The state of an asset that is given up.
    given_up: str | None = None


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
        if found.asset.key is not None:
            return Done()
        fresh = None
        try:
            copied = await self._copy_from_row(job, found)
            if copied is None:
                fresh = await self._ask(job, found)
                copied = await self._copier.copy(job, found.asset, fresh.url, fresh.headers)
        except LeaseLost:
            raise
        except LongtakeError as error:
            return self._failed(job, found, error, fresh)
        return Done(data=Report(found.asset, copied, fresh))

    async def _copy_from_row(self, job: Job, found: Mirroring) -> Copied | None:
        """Copy from the address in the row. None: it has ended, and it is worth asking for another."""
        asset = found.asset
        if asset.source_url is None or (found.seconds_left is not None and found.seconds_left <= 0):
            return None
        headers = await self._sources.download_headers(asset)
        try:
            return await self._copier.copy(job, asset, asset.source_url, headers)
        except SourceGone:
            return None

    async def _ask(self, job: Job, found: Mirroring) -> FreshSource:
        gone = SourceGone("The address of the result has ended, and the provider gives no other.")
        if _asked(job) >= MOST_FRESH_SOURCES:
            raise gone
        try:
            fresh = await self._sources.fresh(found.asset)
        except LongtakeError as error:
            raise SourceUnknown(f"The provider could not be asked for the result again: {error.message}") from error
        if fresh is None:
            raise gone
        return fresh

    def _failed(self, job: Job, found: Mirroring, error: LongtakeError, fresh: FreshSource | None) -> Outcome:
        """Say when to try again, or that it is over."""
        left = found.seconds_left if fresh is None else fresh.expires_in
        report = Report(found.asset, fresh=fresh, counted=not isinstance(error, StorageError))
        if isinstance(error, AnswerTooLarge | ObjectTooLarge):
            return Fail(error.code, error.message, data=_given_up(report, "failed"))
        over = left <= 0 if left is not None else job.attempt >= MOST_TRIES_WITHOUT_END
        if over and (isinstance(error, SourceGone) or (left or 0.0) < -ASKING_SECONDS):
            return Fail(error.code, error.message, data=_given_up(report, "expired"))
        asked = _asked(job) + (fresh is not None)
        after = wait_before_next_try(job.attempt, left, self._random)
        return Retry(error.code, error.message, after=after, memo={"fresh": asked}, data=report)

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
                if failed and job.attempt >= FAILURES_BEFORE_ALERT:
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
            if self._on_lost is not None:
                self._on_lost(tx, report.asset)


def _asked(job: Job) -> int:
    memo: dict[str, Any] = job.memo or {}
    return int(memo.get("fresh", 0))


def _given_up(report: Report, state: str) -> Report:
    return Report(report.asset, fresh=report.fresh, counted=report.counted, given_up=state)
