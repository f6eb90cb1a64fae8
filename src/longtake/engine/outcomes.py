"""What a handler returns, and what becomes of its job. Pure decisions: nothing here asks the database.

A handler does slow work and then says how it ended; all of that takes effect in one transaction, or nothing does::

    Done(data=…)                     finished
    Snooze(30, memo=…)               run again in 30 s; costs no attempt
    Snooze(0, memo=…, progress=True) the same, and a part of the work is done: attempts count from zero again
    Retry("PROVIDER_DOWN", "…")      failed for now; the kind's policy says when to try again
    Fail("NOT_FOUND", "…")           failed for good
    Cancelled("…")                   no longer wanted

``data`` goes to the kind's ``settle``; ``then`` are jobs enqueued in the same transaction.

A snooze or a retry can tell of trouble with the remote side of its lane. ``block_lane`` holds the whole lane back for
the same delay, and ``slow_lane`` also doubles its intervals: only for an answer that says that we are too fast. With
``lane_trouble`` the job waits because of its lane, and ``wake_lane`` ends the wait.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

from longtake.engine.jobs import Job, JobRequest
from longtake.engine.kinds import JobKind
from longtake.engine.queue import Ending, PutBack

#: The third crash of a job ends it, if it was running alone: then nothing else can have killed the worker.
CRASHES_BEFORE_ALONE = 2
ERROR_TEXT_LIMIT = 2_000
#: However long a server asks us to wait.
RETRY_AFTER_LONGEST = 86_400.0
WORKER_DIED = "The worker that ran it died, or was cut off for longer than its lease."
#: How long a job waits when neither its effects nor those of its failure could be written.
UNSETTLED_SECONDS = 300.0


class _Keep:
    """Stands for a memo that is left as it is."""

    def __repr__(self) -> str:
        return "KEEP"


KEEP: Final = _Keep()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run of a job ended."""

    data: Any = None
    then: Sequence[JobRequest] = ()


@dataclass(frozen=True, slots=True)
class Done(Outcome):
    """The job is finished."""


@dataclass(frozen=True, slots=True)
class Snooze(Outcome):
    """Run again after so many seconds. Not a failure: the attempt that the claim counted is given back.

    ``progress`` says that this run did a part of the work. Then attempts and crashes count from zero again, so that
    long work is limited by its failures in one place and not by its length.
    """

    seconds: float
    memo: Any = field(default=KEEP, kw_only=True)
    progress: bool = field(default=False, kw_only=True)
    code: str | None = field(default=None, kw_only=True)
    message: str | None = field(default=None, kw_only=True)
    slow_lane: bool = field(default=False, kw_only=True)
    block_lane: bool = field(default=False, kw_only=True)
    lane_trouble: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Retry(Outcome):
    """It failed, and may succeed later. ``after`` (a server's Retry-After) wins over the kind's policy."""

    code: str
    message: str
    after: float | None = field(default=None, kw_only=True)
    memo: Any = field(default=KEEP, kw_only=True)
    slow_lane: bool = field(default=False, kw_only=True)
    block_lane: bool = field(default=False, kw_only=True)
    lane_trouble: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Fail(Outcome):
    """It failed, and trying again would not help."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Cancelled(Outcome):
    """It is no longer wanted."""

    reason: str = "cancelled"


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


def judge_crash(job: Job, worker: str | None, text: str = WORKER_DIED) -> Verdict:
    """Decide about a job whose worker died: again at once, or quarantined if it was alone to blame."""
    if job.crashes >= CRASHES_BEFORE_ALONE and not job.alone:
        # It had to wait its turn to run alone and never started: not its crash, and no attempt of its own.
        return release(job, worker)
    crashes = job.crashes + 1
    if crashes > CRASHES_BEFORE_ALONE or job.attempt >= job.max_attempts:
        text = f"Its worker died {crashes} time(s) while running it; attempt {job.attempt} of {job.max_attempts}."
        change = Ending(job.id, job.lease_token, "failed", "crashed", error_json("CRASHED", text))
        return Verdict(job, Fail("CRASHED", text), change)
    back = _back(job, worker, 0.0, "crashed", error_json("CRASHED", text), crashes=crashes)
    return Verdict(job, Retry("CRASHED", text), back)


def release(job: Job, worker: str | None, delay: float = 0.0) -> Verdict:
    """Give a job back unspent: it was never begun, or its worker is being stopped."""
    change = PutBack(job.id, job.lease_token, worker, delay, job.attempt, unspent(job), job.crashes)
    return Verdict(job, None, change)


def unspent(job: Job) -> int:
    """Return the job's attempts without the one that its claim counted."""
    return max(job.attempt - 1, 0)


def unsettled(job: Job, worker: str | None, message: str) -> Verdict:
    """Put a job back whose effects could not be written, without asking its settle again."""
    error = error_json("SETTLE_FAILED", message)
    return Verdict(job, None, _back(job, worker, UNSETTLED_SECONDS, "retry", error))


def error_json(code: str, message: str, *, lane_trouble: bool = False) -> str:
    """Return an error as rows hold it, with a mark where the job waits because of its lane."""
    # Neither a NUL nor half a character can be stored; names of files may have either.
    text = message[:ERROR_TEXT_LIMIT].replace("\0", "�").encode(errors="replace").decode()
    error: dict[str, Any] = {"code": code, "message": text}
    return orjson.dumps(error | {"lane_trouble": True} if lane_trouble else error).decode()


def _failed(job: Job, code: str, message: str) -> Ending:
    return Ending(job.id, job.lease_token, "failed", "failed", error_json(code, message))


def _retried(kind: JobKind, job: Job, outcome: Retry, worker: str, random: random.Random) -> PutBack:
    policy = kind.retry_delay(outcome.code, job.attempt, random)
    delay = policy if outcome.after is None else min(max(outcome.after, 0.0), RETRY_AFTER_LONGEST)
    error = error_json(outcome.code, outcome.message, lane_trouble=outcome.lane_trouble)
    return _back(job, worker, delay, "retry", error, outcome.memo)


def _snoozed(job: Job, outcome: Snooze, worker: str) -> PutBack:
    error = None
    if outcome.code is not None:
        error = error_json(outcome.code, outcome.message or "", lane_trouble=outcome.lane_trouble)
    # A job that ran alone without a crash is no suspect any more: otherwise each of its waits would drain the worker.
    attempt, crashes = (0, 0) if outcome.progress else (unspent(job), 0 if job.alone else job.crashes)
    counts = {"attempt": attempt, "crashes": crashes, "snoozed": True}
    return _back(job, worker, max(outcome.seconds, 0.0), None, error, outcome.memo, **counts)


def _back(
    job: Job,
    worker: str | None,
    delay: float,
    outcome: str | None,
    error: str | None,
    memo: Any = KEEP,
    **counts: Any,
) -> PutBack:
    """Return what puts the job back with this error, and with the counts that change."""
    back = PutBack(job.id, job.lease_token, worker, delay, job.attempt, job.attempt, job.crashes)
    if memo is not KEEP:
        back = back._replace(keep_memo=False, memo=orjson.dumps(memo).decode())
    return back._replace(keep_error=False, error=error, outcome=outcome, **counts)
