"""What a failed try of a copy means: when the next comes, or that it is over. Pure decisions, no database."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from longtake.capabilities.media.copier import Copied
from longtake.capabilities.media.mirror_retry import (
    ASKING_SECONDS,
    IMPORT,
    MOST_TRIES_WITHOUT_END,
    import_wait,
    wait_before_next_try,
)
from longtake.capabilities.media.sources import FreshSource
from longtake.engine.outcomes import Fail, Outcome, Retry
from longtake.errors import AnswerTooLarge, LongtakeError, ObjectTooLarge, SourceGone, StorageError
from longtake.services.assets import Asset

if TYPE_CHECKING:
    import random

    from longtake.capabilities.media.mirror_store import Mirroring
    from longtake.engine.jobs import Job


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


def judge_failure(
    job: Job, found: Mirroring, error: LongtakeError, fresh: FreshSource | None, random: random.Random
) -> Outcome:
    """Say when to try again, or that it is over."""
    report = Report(found.asset, fresh=fresh, counted=not isinstance(error, StorageError))
    if isinstance(error, AnswerTooLarge | ObjectTooLarge):
        return _over(report, error, "failed")
    memo = {"fresh": times_asked(job) + (fresh is not None), "failures": failures_before(job) + report.counted}
    if found.asset.role == IMPORT:
        after = import_wait(memo["failures"])
        if after is None:
            return _over(report, error, "failed")
    else:
        left = found.seconds_left if fresh is None else fresh.expires_in
        if _has_ended(job, left, error):
            return _over(report, error, "expired")
        after = wait_before_next_try(job.attempt, left, random)
    return Retry(error.code, error.message, after=after, memo=memo, data=report)


def times_asked(job: Job) -> int:
    """Return how often the provider gave another address."""
    return int(_memo(job).get("fresh", 0))


def failures_before(job: Job) -> int:
    """Return how many tries failed before this one by the source's fault, also those of an earlier job."""
    return int(_memo(job).get("failures", job.args.get("failures", 0)))


def _has_ended(job: Job, left: float | None, error: LongtakeError) -> bool:
    over = left <= 0 if left is not None else job.attempt >= MOST_TRIES_WITHOUT_END
    return over and (isinstance(error, SourceGone) or (left or 0.0) < -ASKING_SECONDS)


def _over(report: Report, error: LongtakeError, state: str) -> Outcome:
    # Where an older copy is there, only the wish for a newer one has failed.
    given_up = state if report.asset.key is None else "failed"
    return Fail(error.code, error.message, data=replace(report, given_up=given_up))


def _memo(job: Job) -> dict[str, Any]:
    return job.memo or {}
