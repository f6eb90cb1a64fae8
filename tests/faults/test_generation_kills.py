"""Generation under fire: server and workers killed with -9 at random times, while the provider misbehaves."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from tests.faults.generation_kills import kill_generation

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 120.0
TASKS = 200


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_killed_at_random_times_every_accepted_task_ends_once_and_is_paid_once(
    database_url: str, tmp_path: Path
) -> None:
    seed = int(os.environ.get("LONGTAKE_TEST_SEED", time.time_ns()))
    print("LONGTAKE_TEST_SEED =", seed)  # noqa: T201 - shown when the test fails
    assert await kill_generation(tmp_path, database_url, SECONDS, TASKS, seed) == []
