"""A real sandbox process, and every adapter pointed at it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from longtake.adapters.net import HttpClient
from longtake.adapters.providers.provider import Provider
from longtake.adapters.providers.registry import build_providers
from longtake.settings import Settings
from tests.providers.asking import Keys
from tests.sandbox_process import WEBHOOK_KEY, SandboxProcess, running_sandbox


@pytest.fixture(scope="session")
def sandbox_process() -> Iterator[SandboxProcess]:
    with running_sandbox(instant=True, webhook_key=WEBHOOK_KEY, seconds={"image": 0.05, "video": 0.05}) as process:
        yield process


@pytest.fixture
def sandbox(sandbox_process: SandboxProcess) -> Iterator[SandboxProcess]:
    yield sandbox_process
    sandbox_process.clear_faults()
    sandbox_process.clear_calls()


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    opened = HttpClient(allowed_addresses=["127.0.0.1/32"])
    yield opened
    await opened.close()


@pytest.fixture
def keys(sandbox: SandboxProcess) -> Keys:
    return Keys(kie_api_key=sandbox.key, gemini_api_key=sandbox.key, kie_webhook_key=WEBHOOK_KEY)


@pytest.fixture
def providers(sandbox: SandboxProcess, client: HttpClient, keys: Keys) -> dict[str, Provider]:
    settings = Settings(kie_base_url=sandbox.kie_url, gemini_base_url=sandbox.gemini_url)
    return build_providers(settings, client, keys)
