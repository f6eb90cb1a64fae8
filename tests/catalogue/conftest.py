"""One sandbox for all tests of a process, clean for each; a studio on either database, with posters in either store."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from longtake.clock import new_id
from tests.assets.stage import Source
from tests.catalogue.stage import CatalogueStudio, Place, folder_place, s3_place
from tests.sandbox_process import KEY, running_sandbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from longtake import Database
    from tests.databases import StoppedClock
    from tests.s3_server import S3Server
    from tests.sandbox_process import SandboxProcess

    Open = Callable[..., AbstractAsyncContextManager[CatalogueStudio]]


@pytest.fixture(scope="session")
def shared_sandbox() -> Iterator[SandboxProcess]:
    with running_sandbox(tmdb_limit="") as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(shared_sandbox: SandboxProcess) -> SandboxProcess:
    """A sandbox without faults, with all its keys and an empty log."""
    shared_sandbox.clear_faults()
    shared_sandbox.settings(keys=[KEY])
    shared_sandbox.clear_calls()
    return shared_sandbox


@pytest.fixture
def open_studio(stopped_database: Database, clock: StoppedClock, sandbox: SandboxProcess, tmp_path: Path) -> Open:
    """Open a studio with settings of its own; one after the other is as a process that was started again."""

    @asynccontextmanager
    async def opened(**settings: Any) -> AsyncIterator[CatalogueStudio]:
        studio = CatalogueStudio(stopped_database, clock, sandbox, tmp_path, **settings)
        await studio.start()
        try:
            yield studio
        finally:
            await studio.close()

    return opened


@pytest.fixture
async def studio(open_studio: Open) -> AsyncIterator[CatalogueStudio]:
    async with open_studio() as opened:
        yield opened


@pytest.fixture
def place(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Place:
    """A store of either kind: S3 beside SQLite, a folder beside PostgreSQL, since neither knows of the other."""
    if not database_url.startswith("sqlite"):
        return folder_place(tmp_path)
    server: S3Server = request.getfixturevalue("s3_server")
    return s3_place(server, new_id())


@pytest.fixture
async def either_store(open_studio: Open, place: Place) -> AsyncIterator[CatalogueStudio]:
    """A studio on either database, each with a store of another kind."""
    async with open_studio(**place.settings) as opened:
        yield opened


@pytest.fixture
async def source() -> AsyncIterator[Source]:
    """A server of pictures that answers as a test tells it."""
    async with Source().running() as running:
        yield running
