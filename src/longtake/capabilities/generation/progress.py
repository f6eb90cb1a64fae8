"""How far a task probably is: by its provider's word, or by how long its model took lately.

client/src/progress.js has the same formula, so that a bar moves on between two answers of the server;
tests/progress_cases.json holds both to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Where the bar is when half of the runs were done, and what is left of it then.
AT_MEDIAN = 0.9
REST = 0.1
#: Only the task's end is the whole.
PROVIDER_MOST = 0.99
HISTORY_MOST = 0.999
#: Below this a provider's percent says nothing about the time that is left.
TELLING = 0.05
#: Runs that took no time at all, or all the same time, must not divide by nothing.
LEAST_MEDIAN = 0.1
LEAST_SPREAD = 0.1


@dataclass(frozen=True, slots=True)
class Progress:
    """A part of the whole below 1, and seconds until the end; None where nobody can say."""

    fraction: float | None
    seconds_left: float | None
    based_on: Literal["provider", "history"] | None
    #: Longer under way than nearly all before it.
    late: bool


def progress(elapsed: float, median: float | None, p95: float | None, provider: float | None) -> Progress:
    """Return how far a task is after so many seconds. A provider that tells is believed, else past runs are."""
    elapsed = max(elapsed, 0.0)
    late = p95 is not None and elapsed > p95
    if provider is not None:
        told = min(max(provider, 0.0), 1.0)
        left = elapsed * (1 - told) / told if told >= TELLING and elapsed > 0 else None
        return Progress(min(told, PROVIDER_MOST), left, "provider", late)
    if median is None or p95 is None:
        return Progress(None, None, None, late)
    median = max(median, LEAST_MEDIAN)
    if elapsed <= median:
        return Progress(AT_MEDIAN * elapsed / median, median - elapsed, "history", late)
    # After the median nobody knows how long it takes: the bar slows down, is at 0.99 at p95, and no time is promised.
    spread = max(p95 - median, LEAST_SPREAD * median)
    eased = 1 - REST * 10 ** -((elapsed - median) / spread)
    return Progress(min(eased, HISTORY_MOST), None, "history", late)
