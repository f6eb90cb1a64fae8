"""Estimates how far a task is, from its provider's report or from how long its model took recently.

client/src/progress.js has the same formula, so that a bar moves between two answers of the server;
tests/progress_cases.json tests both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Where the bar is at the median of past runs, and what is left of it then.
AT_MEDIAN = 0.9
REST = 0.1
#: Only a task that has ended shows 1.
PROVIDER_MOST = 0.99
HISTORY_MOST = 0.999
#: Below this fraction a provider's report says nothing about the time left.
TELLING = 0.05
#: Past runs that took no time, or all the same time, must not cause a division by zero.
LEAST_MEDIAN = 0.1
LEAST_SPREAD = 0.1


@dataclass(frozen=True, slots=True)
class Progress:
    """A fraction below 1 and the seconds until the end; None where they are unknown."""

    fraction: float | None
    seconds_left: float | None
    based_on: Literal["provider", "history"] | None
    #: It takes longer than 95 % of past runs.
    late: bool


def progress(elapsed: float, median: float | None, p95: float | None, provider: float | None) -> Progress:
    """Return how far a task is after so many seconds, by its provider's report if there is one, else by past runs."""
    elapsed = max(elapsed, 0.0)
    late = p95 is not None and elapsed > p95
    if provider is not None:
        done = min(max(provider, 0.0), 1.0)
        left = elapsed * (1 - done) / done if done >= TELLING and elapsed > 0 else None
        return Progress(min(done, PROVIDER_MOST), left, "provider", late)
    if median is None or p95 is None:
        return Progress(None, None, None, late)
    median = max(median, LEAST_MEDIAN)
    if elapsed <= median:
        return Progress(AT_MEDIAN * elapsed / median, median - elapsed, "history", late)
    # After the median the end cannot be predicted: the bar slows down, reaches 0.99 at p95, and no time is given.
    spread = max(p95 - median, LEAST_SPREAD * median)
    eased = 1 - REST * 10 ** -((elapsed - median) / spread)
    return Progress(min(eased, HISTORY_MOST), None, "history", late)
