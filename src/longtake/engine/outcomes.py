"""What a handler returns: the engine applies it, with all its effects, in one transaction or not at all.

A handler does slow work and then says how it ended::

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

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake.engine.jobs import JobRequest


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
