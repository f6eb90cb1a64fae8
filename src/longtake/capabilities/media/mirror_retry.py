"""When a copy that failed is tried again.

A result's address may live for minutes only: soon at first, every five minutes later, once more before its source ends.
A file that somebody brought in stays where it is: three times more, 2, 5 and 10 minutes after each failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

#: The role of assets that somebody brought in.
IMPORT = "import"
#: After the first, second and third failure, and after every further one.
WAITS = (5.0, 20.0, 60.0, 300.0)
#: The same for imports; after these there is no further try.
IMPORT_WAITS = (120.0, 300.0, 600.0)
#: A source that is about to end is tried once more this long before.
LAST_CHANCE_SECONDS = 15.0
#: And from an address that the provider is asked for anew, if it has one; the old one has failed before.
RENEW_SECONDS = 2 * LAST_CHANCE_SECONDS
FIRST_TRY_SECONDS = 30.0
LATER_TRY_SECONDS = 180.0
#: How long after its end we keep asking a provider that does not answer for a new address.
ASKING_SECONDS = 86_400.0
#: When this many tries of a result have failed, the first and three more, somebody should look.
FAILURES_BEFORE_ALERT = 4
#: And of an import, before its last.
IMPORT_FAILURES_BEFORE_ALERT = 3
#: A provider that gives a new address each time, and never a file, is not asked for ever.
MOST_FRESH_SOURCES = 5
#: A file that is not there, at an address of which nobody knows when it ends, is looked for about an hour.
MOST_TRIES_WITHOUT_END = 15


def seconds_for_try(role: str, attempt: int) -> float:
    """Return the time limit of a try (the first is 1): the first of a result must not keep anybody waiting."""
    return FIRST_TRY_SECONDS if attempt <= 1 and role != IMPORT else LATER_TRY_SECONDS


def wait_before_next_try(attempt: int, seconds_left: float | None, random: random.Random) -> float:
    """Return how long a result waits after this attempt failed; ``seconds_left`` is how long the source still lives.

    A little less than the round number, at random: after an outage not all come back together.
    """
    wait = WAITS[min(max(attempt, 1), len(WAITS)) - 1] * random.uniform(0.85, 1.0)
    if seconds_left is None or seconds_left <= 0:
        return wait
    if seconds_left > 2 * LAST_CHANCE_SECONDS:
        return min(wait, seconds_left - LAST_CHANCE_SECONDS)
    # There is no time for another try before its end: come right after it, and ask for another address.
    return min(wait, seconds_left + 1.0)


def import_wait(failures: int) -> float | None:
    """Return how long an import waits after so many failures; None: it is not tried again by itself.

    None at all are failures of our own storage alone: they are waited out, however often.
    """
    return IMPORT_WAITS[max(failures, 1) - 1] if failures <= len(IMPORT_WAITS) else None


def needs_somebody(role: str, failures: int) -> bool:
    """Say whether it has failed so often that somebody should look."""
    return failures >= (IMPORT_FAILURES_BEFORE_ALERT if role == IMPORT else FAILURES_BEFORE_ALERT)
