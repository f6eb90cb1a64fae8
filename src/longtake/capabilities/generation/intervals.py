"""How often a provider is asked about a task: polls of unwatched tasks, and of those that a caller watches.

Each wait of an unwatched task is spread by a tenth, so that tasks submitted together do not stay together; the lane
does the rest. Watched tasks are polled sooner: ``watch`` hurries their polls.
"""

from __future__ import annotations

import random

#: Seconds between polls while a task had fewer polls than this; then LAST.
STEPS = ((10, 30.0), (30, 60.0))
LAST = 120.0
SPREAD = 0.1

#: Seconds between polls of a watched task, by what it makes; after EARLY_SECONDS of watching, LATER_SECONDS.
FAST_SECONDS = {"image": 2.0, "video": 5.0}
EARLY_SECONDS = 120.0
LATER_SECONDS = {"image": 10.0, "video": 15.0}


def next_poll(polls: int, source: random.Random) -> float:
    """Return how long to wait after so many polls."""
    seconds = next((seconds for limit, seconds in STEPS if polls < limit), LAST)
    return seconds * source.uniform(1 - SPREAD, 1 + SPREAD)


def first_poll(source: random.Random) -> float:
    """Return how long after the provider accepted the task to poll for the first time."""
    return next_poll(0, source)


def next_watched_poll(type: str, watched_seconds: float) -> float:  # noqa: A002 - the domain's word
    """Return how long to wait for the next poll of a task that has been watched for so long."""
    return (FAST_SECONDS if watched_seconds < EARLY_SECONDS else LATER_SECONDS)[type]
