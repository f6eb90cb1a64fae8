"""Fixtures: the stage on real time, and the stage while time stands still."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from longtake import open_database
from tests.webhooks.stage import Stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from longtake import Database
    from tests.databases import StoppedClock


@pytest.fixture
async def stage(database: Database) -> AsyncIterator[Stage]:
    async with Stage(database).open() as opened:
        yield opened


@pytest.fixture
async def quick(sqlite_url: str) -> AsyncIterator[Stage]:
    """For what never reaches the database."""
    database = open_database(sqlite_url)
    async with Stage(database).open() as opened:
        yield opened
    database.close()


@pytest.fixture
async def still(stopped_database: Database, clock: StoppedClock) -> AsyncIterator[Stage]:
    async with Stage(stopped_database, clock).open() as opened:
        yield opened
