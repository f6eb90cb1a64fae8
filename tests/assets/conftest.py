"""Fixtures: stores of either kind, and a stage on which mirrors run while time stands still."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from longtake import open_database
from tests.assets.picture_stage import Removable, removable_bucket, removable_folder
from tests.assets.service import Service
from tests.assets.stage import Stage
from tests.assets.test_mirror_storage import Between
from tests.storages import KINDS, local_storage, s3_storage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from longtake import Database
    from longtake.adapters.storage import Storage
    from tests.s3_server import S3Server


@pytest.fixture
def folder_storage(tmp_path: Path) -> Storage:
    """An empty store in a folder."""
    return local_storage(tmp_path)


@pytest.fixture(params=KINDS)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """An empty store of either kind."""
    if request.param == "local":
        return local_storage(tmp_path)
    server: S3Server = request.getfixturevalue("s3_server")
    return s3_storage(server)


@pytest.fixture(params=KINDS)
async def removable(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Removable]:
    """An empty store of either kind that can go away."""
    if request.param == "local":
        yield removable_folder(local_storage(tmp_path), tmp_path / "objects")
        return
    server: S3Server = request.getfixturevalue("s3_server")
    async with Between(server).running() as between:
        yield removable_bucket(between)


@pytest.fixture
async def removable_beside(
    request: pytest.FixtureRequest, database_url: str, tmp_path: Path
) -> AsyncIterator[Removable]:
    """An empty store that can go away: S3 beside SQLite, a folder beside PostgreSQL. Neither knows of the other."""
    if not database_url.startswith("sqlite"):
        yield removable_folder(local_storage(tmp_path), tmp_path / "objects")
        return
    server: S3Server = request.getfixturevalue("s3_server")
    async with Between(server).running() as between:
        yield removable_bucket(between)


@pytest.fixture
def sqlite_database(sqlite_url: str) -> Iterator[Database]:
    """For what has nothing to do with the database."""
    opened = open_database(sqlite_url)
    yield opened
    opened.close()


@pytest.fixture
async def quick_stage(sqlite_database: Database, folder_storage: Storage) -> AsyncIterator[Stage]:
    """A stage for what has nothing to do with database or time."""
    async with Stage(sqlite_database, folder_storage).open() as opened:
        yield opened


@pytest.fixture
async def service(sqlite_database: Database, folder_storage: Storage) -> AsyncIterator[Service]:
    """The routes, with files in a folder."""
    async with Service(sqlite_database, folder_storage).running() as running:
        yield running


@pytest.fixture
async def both_service(database: Database, folder_storage: Storage) -> AsyncIterator[Service]:
    """The routes on both databases."""
    async with Service(database, folder_storage).running() as running:
        yield running


@pytest.fixture
async def any_service(sqlite_database: Database, storage: Storage) -> AsyncIterator[Service]:
    """The routes with stores of both kinds."""
    async with Service(sqlite_database, storage).running() as running:
        yield running


@pytest.fixture
async def stage(stopped_database: Database, folder_storage: Storage) -> AsyncIterator[Stage]:
    """A stage with files in a folder."""
    async with Stage(stopped_database, folder_storage).open() as opened:
        yield opened
