"""When a mirror that failed is tried again, and when it is given up. Pure decisions, without a database.

The address of a result may live for minutes: tries come soon at first, every five minutes later, and once more before
the address ends. The address of an import stays: three more tries come 2, 5 and 10 minutes after each failure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from longtake.adapters.net.errors import AnswerTooLarge
from longtake.adapters.storage.errors import ObjectTooLarge, StorageError
from longtake.engine.outcomes import Fail, Outcome, Retry, Snooze, unspent
from longtake.errors import LongtakeError
from longtake.services.assets.errors import SourceGone

if TYPE_CHECKING:
    import random

    from longtake.capabilities.media.copier import Copy
    from longtake.capabilities.media.store import ExpiringAsset
    from longtake.capability import FreshSource
    from longtake.engine.jobs import Job
    from longtake.services.assets import Asset

#: The role of imports.
IMPORT = "import"
#: After the first, second and third failure, and after every further one.
WAITS = (5.0, 20.0, 60.0, 300.0)
#: The same for imports; after these there is no further try.
IMPORT_WAITS = (120.0, 300.0, 600.0)
#: A source that is about to end is tried once more this long before.
LAST_CHANCE_SECONDS = 15.0
#: This long before its end a failing address is replaced by a fresh one, if the provider has one.
RENEW_SECONDS = 2 * LAST_CHANCE_SECONDS
FIRST_TRY_SECONDS = 30.0
LATER_TRY_SECONDS = 180.0
#: How long after the end of an address a provider that does not answer is still asked for a fresh one.
ASKING_SECONDS = 86_400.0
#: A result's number of failed tries, the first and three more, at which an alert is raised.
FAILURES_BEFORE_ALERT = 4
#: The same for an import, before its last try.
IMPORT_FAILURES_BEFORE_ALERT = 3
#: How many fresh addresses are asked for: a provider may give one each time, and never a file.
MOST_FRESH_SOURCES = 5
#: How many tries a missing file gets whose address has no known end: about an hour.
MOST_TRIES_WITHOUT_END = 15


@dataclass(frozen=True, slots=True)
class MirrorReport:
    """The result of a try, for the transaction that ends it."""

    asset: Asset
    copy: Copy | None = None
    fresh: FreshSource | None = None
    #: Whether the source failed; failures of our own storage are not counted against it.
    counted: bool = False
    #: The state of an asset that is given up.
    given_up: str | None = None


def judge_failure(
    job: Job, found: ExpiringAsset, error: LongtakeError, fresh: FreshSource | None, random: random.Random
) -> Outcome:
    """Return when to try again, or that the mirror is given up. Trouble with our own storage spends no attempt."""
    report = MirrorReport(found.asset, fresh=fresh, counted=not isinstance(error, StorageError))
    if isinstance(error, AnswerTooLarge | ObjectTooLarge):
        return _give_up(report, error, "failed")
    if found.asset.role == IMPORT:
        after = import_wait(failures_before(job) + report.counted)
        if after is None:
            return _give_up(report, error, "failed")
    else:
        left = found.seconds_left if fresh is None else fresh.expires_in
        if _has_ended(job, left, error):
            return _give_up(report, error, "expired")
        after = wait_before_next_try(runs(job), left, random)
    memo = {"fresh": fresh_sources(job) + (fresh is not None)}
    if not report.counted:
        return Snooze(after, code=error.code, message=error.message, memo=memo, data=report)
    return Retry(error.code, error.message, after=after, memo=memo, data=report)


def fresh_sources(job: Job) -> int:
    """Return how many fresh addresses the provider has given for this job."""
    return int((job.memo or {}).get("fresh", 0))


def runs(job: Job) -> int:
    """Return the number of this run, those before it that spent no attempt included."""
    return job.attempt + job.snoozes


def failures_before(job: Job) -> int:
    """Return how many attempts have failed, those of an earlier job included."""
    return int(job.args.get("failures", 0)) + unspent(job)


def seconds_for_try(role: str, run: int) -> float:
    """Return the time limit of a try. The first run of a result is short: a user waits for it."""
    return FIRST_TRY_SECONDS if run <= 1 and role != IMPORT else LATER_TRY_SECONDS


def wait_before_next_try(run: int, seconds_left: float | None, random: random.Random) -> float:
    """Return how long a result waits after this run failed; ``seconds_left`` is how long its source still lives.

    Waits are shortened at random, so that tries do not all come back together after an outage.
    """
    wait = WAITS[min(max(run, 1), len(WAITS)) - 1] * random.uniform(0.85, 1.0)
    if seconds_left is None or seconds_left <= 0:
        return wait
    if seconds_left > 2 * LAST_CHANCE_SECONDS:
        return min(wait, seconds_left - LAST_CHANCE_SECONDS)
    # Too late for another try before the end: come right after it, and ask for a fresh address.
    return min(wait, seconds_left + 1.0)


def import_wait(failures: int) -> float | None:
    """Return how long an import waits after so many failures; None means no further try.

    Zero failures means that only our own storage has failed: such tries go on without limit.
    """
    return IMPORT_WAITS[max(failures, 1) - 1] if failures <= len(IMPORT_WAITS) else None


def needs_alert(role: str, failures: int) -> bool:
    """Return whether so many failures call for an operator."""
    return failures >= (IMPORT_FAILURES_BEFORE_ALERT if role == IMPORT else FAILURES_BEFORE_ALERT)


def _has_ended(job: Job, left: float | None, error: LongtakeError) -> bool:
    over = left <= 0 if left is not None else job.attempt >= MOST_TRIES_WITHOUT_END
    return over and (isinstance(error, SourceGone) or (left or 0.0) < -ASKING_SECONDS)


def _give_up(report: MirrorReport, error: LongtakeError, state: str) -> Outcome:
    # With an older copy in place only the replacement has failed: that never expires.
    given_up = state if report.asset.key is None else "failed"
    return Fail(error.code, error.message, data=replace(report, given_up=given_up))
