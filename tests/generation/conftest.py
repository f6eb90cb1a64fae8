"""One sandbox for all tests of a process, clean for each; a studio on either database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.generation.studio import Studio
from tests.sandbox_process import running_sandbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from longtake import Database
    from tests.databases import StoppedClock
    from tests.sandbox_process import SandboxProcess


@pytest.fixture(scope="session")
def shared_sandbox() -> Iterator[SandboxProcess]:
    with running_sandbox(seconds={"image": 0.0, "video": 0.0}) as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(shared_sandbox: SandboxProcess) -> SandboxProcess:
    """A sandbox that answers at once, without faults and with an empty log."""
    shared_sandbox.clear_faults()
    shared_sandbox.clear_calls()
    return shared_sandbox


@pytest.fixture
async def studio(
    stopped_database: Database, clock: StoppedClock, sandbox: SandboxProcess, tmp_path: Path
) -> AsyncIterator[Studio]:
    opened = Studio(stopped_database, clock, sandbox, tmp_path)
    await opened.start()
    yield opened
    await opened.close()
