"""The public names: whoever changes this list changes what others rely on, and says so in the changelog."""

from __future__ import annotations

import longtake

NAMES = [
    "Cancelled",
    "Database",
    "Done",
    "Engine",
    "Enqueued",
    "Exponential",
    "Fail",
    "Job",
    "JobKind",
    "JobRequest",
    "Lane",
    "Outcome",
    "Priority",
    "Retry",
    "Schedule",
    "Settlement",
    "Snooze",
    "Steps",
    "Transaction",
    "Worker",
    "migrate_down",
    "migrate_up",
    "open_database",
]


def test_the_public_names_are_these() -> None:
    assert longtake.__all__ == NAMES


def test_every_public_name_is_there_and_documented() -> None:
    for name in NAMES:
        assert getattr(longtake, name).__doc__, name
