"""One sandbox for all tests of a process, clean for each; a studio on either database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.generation.conftest import sandbox, shared_sandbox
from tests.scenes.stage import SceneStudio
from tests.service.conftest import commands

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from longtake import Database
    from tests.databases import StoppedClock
    from tests.sandbox_process import SandboxProcess

__all__ = ["commands", "sandbox", "shared_sandbox"]


@pytest.fixture
async def studio(
    stopped_database: Database,
    clock: StoppedClock,
    sandbox: SandboxProcess,
    tmp_path: Path,
) -> AsyncIterator[SceneStudio]:
    opened = SceneStudio(stopped_database, clock, sandbox, tmp_path)
    await opened.start()
    yield opened
    await opened.close()
