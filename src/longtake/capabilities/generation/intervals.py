"""When to ask a provider again.

Unwatched tasks are asked about every 30 s at first, less often later. Each wait is spread by a tenth, so that tasks
submitted together do not stay together; the lane does the rest. Tasks somebody watches are asked about sooner: see
watching.py, which hurries their polls.
"""

from __future__ import annotations

import random

STEPS = ((10, 30.0), (30, 60.0))
LAST = 120.0
SPREAD = 0.1


def next_poll(polls: int, source: random.Random) -> float:
    """Return how long to wait after so many polls."""
    seconds = next((seconds for limit, seconds in STEPS if polls < limit), LAST)
    return seconds * source.uniform(1 - SPREAD, 1 + SPREAD)


def first_poll(source: random.Random) -> float:
    """Return how long after the provider accepted to ask for the first time."""
    return next_poll(0, source)
