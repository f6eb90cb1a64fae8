"""Tries of a picture that count whatever comes between them.

After a Snooze the engine counts attempts from zero. A file that fails, then finds the decoders busy, and fails again
would be decoded without end; so what was spent before is kept in the job's memo.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from longtake.engine.outcomes import Fail, Retry, Snooze

if TYPE_CHECKING:
    from longtake.engine.jobs import Job
    from longtake.errors import LongtakeError


def failed(job: Job, error: LongtakeError, waits: Sequence[float], data: Any = None) -> Retry | Fail:
    """Try again after as many seconds as the tries so far say; after the last of them no more."""
    spent = _spent(job)
    if spent >= len(waits):
        return Fail(error.code, error.message, data=data)
    return Retry(error.code, error.message, after=waits[spent], data=data)


def wait(job: Job, seconds: float, error: LongtakeError | None = None, *, data: Any = None, **memo: Any) -> Snooze:
    """Look again later, with no try spent and none given back."""
    kept = {**(job.memo or {}), **memo, "spent": _spent(job)}
    code, message = (None, None) if error is None else (error.code, error.message)
    return Snooze(seconds, memo=kept, code=code, message=message, data=data)


def _spent(job: Job) -> int:
    """Return how many tries have failed before this one, those among them that only the engine saw."""
    return int((job.memo or {}).get("spent", 0)) + max(job.attempt - 1, 0)
