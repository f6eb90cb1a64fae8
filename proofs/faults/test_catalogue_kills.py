"""Titles are synced while workers are killed and sources misbehave: nothing is lost, nothing is twice.

`LONGTAKE_TEST_TITLES=10000 ./dev prove catalogue` is the proof in full; it takes minutes more.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from proofs.faults.catalogue_kills import kill_catalogue, overlapping

if TYPE_CHECKING:
    from pathlib import Path

TITLES = int(os.environ.get("LONGTAKE_TEST_TITLES", "1500"))
#: One poster for each title in memory would be 1.
MOST_KEPT = 0.5


@pytest.mark.slow
@pytest.mark.timeout(1_800)
async def test_after_kills_every_poster_was_fetched_once_and_every_title_was_found(
    database_url: str, tmp_path: Path
) -> None:
    """M5, M6: limits over all workers."""
    wrong, kept = await kill_catalogue(tmp_path, database_url, TITLES)
    assert wrong == []
    assert kept < MOST_KEPT


def test_two_fetches_of_one_address_at_once_would_be_noticed() -> None:
    calls = [
        {"path": "/a", "monotonic": 1.0, "monotonic_end": 2.0},
        {"path": "/b", "monotonic": 1.5, "monotonic_end": 3.0},
        {"path": "/a", "monotonic": 2.0, "monotonic_end": 2.5},
    ]
    assert overlapping(calls) == []
    assert overlapping([*calls, {"path": "/b", "monotonic": 2.9, "monotonic_end": 4.0}]) != []
