"""From what a handler returned to what happens to its job: pure decisions, no database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from longtake.engine.outcomes import KEEP, Cancelled, Done, Fail, Outcome, Retry, Snooze
from longtake.engine.queue import Ending, PutBack

if TYPE_CHECKING:
    import random

    from longtake.engine.jobs import Job
    from longtake.engine.kinds import JobKind

#: The third crash of a job ends it, if it was running alone: then nothing else can have killed the worker.
CRASHES_BEFORE_ALONE = 2
ERROR_TEXT_LIMIT = 2_000
#: However long a server asks us to wait.
RETRY_AFTER_LONGEST = 86_400.0
#: How long a job waits when neither its effects nor those of its failure could be written.
UNSETTLED_SECONDS = 300.0


class Verdict(NamedTuple):
    """What becomes of a job. ``outcome`` is what the kind's settle gets to see; None: nothing to settle."""

    job: Job
    outcome: Outcome | None
    change: Ending | PutBack

    @property
    def holds_lane(self) -> float | None:
        """Return for how long the lane must hold back; None if it need not."""
        held = isinstance(self.outcome, Retry | Snooze) and (self.outcome.slow_lane or self.outcome.block_lane)
        return self.change.delay if held and isinstance(self.change, PutBack) else None

    @property
    def slows_lane(self) -> bool:
        """Return whether the remote side said that the lane is too fast."""
        return isinstance(self.outcome, Retry | Snooze) and self.outcome.slow_lane


def judge(kind: JobKind, job: Job, outcome: Outcome, worker: str, random: random.Random) -> Verdict:
    """Apply the kind's policy to an outcome; one that cannot be applied counts as none."""
    try:
        return _judge(kind, job, outcome, worker, random)
    except Exception as error:  # noqa: BLE001 - a memo that is not JSON, a wait that is no number: a handler's mistakes
        strange = f"The handler returned {type(outcome).__name__} that cannot be used: {error}."
        return Verdict(job, Fail("NOT_AN_OUTCOME", strange), _failed(job, "NOT_AN_OUTCOME", strange))


def _judge(kind: JobKind, job: Job, outcome: Outcome, worker: str, random: random.Random) -> Verdict:
    match outcome:
        case Done():
            return Verdict(job, outcome, Ending(job.id, job.lease_token, "done", "done", None))
        case Snooze():
            return Verdict(job, outcome, _snoozed(job, outcome, worker))
        case Retry() if job.attempt < job.max_attempts:
            return Verdict(job, outcome, _retried(kind, job, outcome, worker, random))
        case Retry():
            spent = Fail(outcome.code, outcome.message, data=outcome.data, then=outcome.then)
            return Verdict(job, spent, _failed(job, outcome.code, outcome.message))
        case Fail():
            return Verdict(job, outcome, _failed(job, outcome.code, outcome.message))
        case Cancelled():
            error = error_json("CANCELLED", outcome.reason)
            return Verdict(job, outcome, Ending(job.id, job.lease_token, "cancelled", "cancelled", error))
    strange = f"The handler returned {type(outcome).__name__}, not an outcome (Done, Snooze, Retry, Fail, Cancelled)."
    return Verdict(job, Fail("NOT_AN_OUTCOME", strange), _failed(job, "NOT_AN_OUTCOME", strange))


def judge_crash(job: Job, worker: str | None) -> Verdict:
    """Decide about a job whose worker died: again at once, or quarantined if it was alone to blame."""
    if job.crashes >= CRASHES_BEFORE_ALONE and not job.alone:
        # It had to wait its turn to run alone and never started: not its crash, and no attempt of its own.
        return release(job, worker)
    crashes = job.crashes + 1
    if crashes > CRASHES_BEFORE_ALONE or job.attempt >= job.max_attempts:
        text = f"Its worker died {crashes} time(s) while running it; attempt {job.attempt} of {job.max_attempts}."
        change = Ending(job.id, job.lease_token, "failed", "crashed", error_json("CRASHED", text))
        return Verdict(job, Fail("CRASHED", text), change)
    text = "The worker that ran it died, or was cut off for longer than its lease."
    return Verdict(
        job,
        Retry("CRASHED", text),
        _back(job, worker, 0.0, "crashed", crashes=crashes, error=error_json("CRASHED", text)),
    )


def release(job: Job, worker: str | None, delay: float = 0.0) -> Verdict:
    """Give a job back unspent: it was never begun, or its worker is being stopped."""
    change = PutBack(
        job.id, job.lease_token, worker, delay, job.attempt, unspent(job), job.crashes, snoozed=False,
        keep_memo=True, memo=None, keep_error=True, error=None, outcome=None,
    )  # fmt: skip
    return Verdict(job, None, change)


def unspent(job: Job) -> int:
    """Return the job's attempts without the one that its claim counted."""
    return max(job.attempt - 1, 0)


def unsettled(job: Job, worker: str | None, message: str) -> Verdict:
    """Put a job back whose effects could not be written, without asking its settle again."""
    error = error_json("SETTLE_FAILED", message)
    return Verdict(job, None, _back(job, worker, UNSETTLED_SECONDS, "retry", error=error))


def error_json(code: str, message: str, *, lane_trouble: bool = False) -> str:
    """Return an error as rows hold it, with a mark where the job waits because of its lane."""
    error: dict[str, Any] = {"code": code, "message": message[:ERROR_TEXT_LIMIT].replace("\0", "�")}
    return orjson.dumps(error | {"lane_trouble": True} if lane_trouble else error).decode()


def _failed(job: Job, code: str, message: str) -> Ending:
    return Ending(job.id, job.lease_token, "failed", "failed", error_json(code, message))


def _retried(kind: JobKind, job: Job, outcome: Retry, worker: str, random: random.Random) -> PutBack:
    policy = kind.retry_delay(outcome.code, job.attempt, random)
    delay = policy if outcome.after is None else min(max(outcome.after, 0.0), RETRY_AFTER_LONGEST)
    error = error_json(outcome.code, outcome.message, lane_trouble=outcome.lane_trouble)
    return _back(job, worker, delay, "retry", memo=outcome.memo, error=error)


def _snoozed(job: Job, outcome: Snooze, worker: str) -> PutBack:
    error = None
    if outcome.code is not None:
        error = error_json(outcome.code, outcome.message or "", lane_trouble=outcome.lane_trouble)
    # A job that ran alone without a crash is no suspect any more: otherwise each of its waits would drain the worker.
    attempt, crashes = (0, 0) if outcome.progress else (unspent(job), 0 if job.alone else job.crashes)
    return _back(
        job, worker, max(outcome.seconds, 0.0), None, memo=outcome.memo, error=error, attempt=attempt, crashes=crashes,
        snoozed=True,
    )  # fmt: skip


def _back(
    job: Job,
    worker: str | None,
    delay: float,
    outcome: str | None,
    *,
    memo: Any = KEEP,
    error: str | None = None,
    attempt: int | None = None,
    crashes: int | None = None,
    snoozed: bool = False,
) -> PutBack:
    keep_memo = memo is KEEP
    return PutBack(
        id=job.id,
        token=job.lease_token,
        worker=worker,
        delay=delay,
        ran_attempt=job.attempt,
        attempt=job.attempt if attempt is None else attempt,
        crashes=job.crashes if crashes is None else crashes,
        snoozed=snoozed,
        keep_memo=keep_memo,
        memo=None if keep_memo else orjson.dumps(memo).decode(),
        keep_error=False,
        error=error,
        outcome=outcome,
    )
