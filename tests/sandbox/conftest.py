"""One sandbox for all tests of a process; each test finds it as it was started, but with the tasks of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.sandbox.wire import Kie, Receiver, receiver
from tests.sandbox_process import KEY, SandboxProcess, running_sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator

AS_STARTED: dict[str, Any] = {
    "seconds": {"image": 0.05, "video": 0.1},
    "keys": [KEY], "submit_limit": "", "query_limit": "", "tmdb_limit": "", "titles": 200,
    "url_seconds": 3600, "webhook_key": "", "faststart": "half", "instant": False, "spread": 0,
}  # fmt: skip


@pytest.fixture(scope="session")
def process() -> Iterator[SandboxProcess]:
    with running_sandbox() as running:
        yield running


@pytest.fixture
def sandbox(process: SandboxProcess) -> SandboxProcess:
    process.clear_faults()
    process.clear_calls()
    process.settings(**AS_STARTED)
    return process


@pytest.fixture
def kie(sandbox: SandboxProcess) -> Kie:
    return Kie(sandbox)


@pytest.fixture
def listener() -> Iterator[Receiver]:
    with receiver() as told:
        yield told
