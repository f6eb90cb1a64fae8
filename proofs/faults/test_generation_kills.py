"""Generation under fire: server and workers killed with -9 at random times, while the provider misbehaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proofs.faults.generation_kills import kill_generation

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 120.0
TASKS_A_SECOND = 200 / 120


@pytest.mark.slow
@pytest.mark.timeout(0)  # as long as --seconds says
async def test_killed_at_random_times_every_accepted_task_ends_once_and_is_paid_once(
    database_url: str, tmp_path: Path, seconds: float | None, seed: int
) -> None:
    length = seconds or SECONDS
    assert await kill_generation(tmp_path, database_url, length, round(length * TASKS_A_SECOND), seed) == []
