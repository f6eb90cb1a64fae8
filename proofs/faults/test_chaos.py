"""Workers killed, frozen and stopped, and PostgreSQL restarted, under load; `./dev prove chaos --seconds 600` goes on.

What ran is written to a file outside the database by the workers themselves, and compared with the database at the end.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from proofs.faults.chaos import Chaos

if TYPE_CHECKING:
    from proofs.faults.lab import Lab
    from proofs.faults.servers import StoppableServer

SECONDS = 30.0
WORKERS = 3


def harm(lab: Lab, server: StoppableServer | None, workers: int, seconds: float, seed: int) -> bool:
    chaos = Chaos(lab, server, workers, random.Random(seed))
    chaos.run(seconds)
    return chaos.report(chaos.drain())


@pytest.mark.timeout(0)  # as long as --seconds says
def test_sqlite_loses_and_doubles_nothing(sqlite_lab: Lab, seconds: float | None, seed: int) -> None:
    # SQLite's file has one owner.
    assert harm(sqlite_lab, None, 1, seconds or SECONDS, seed)


@pytest.mark.timeout(0)
def test_postgresql_loses_and_doubles_nothing(
    restarted_lab: Lab, stoppable_server: StoppableServer, seconds: float | None, seed: int
) -> None:
    assert harm(restarted_lab, stoppable_server, WORKERS, seconds or SECONDS, seed)
