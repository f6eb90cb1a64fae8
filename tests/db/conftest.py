"""Fixtures: databases with a table of notes in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from longtake import Database, open_database
from longtake.db.sqlite import SqliteDatabase
from tests.db.notes import make_notes

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def noted(database: Database) -> Database:
    """A database of either kind."""
    database.run_blocking(make_notes)
    return database


@pytest.fixture
def sqlite_noted(sqlite_url: str) -> Iterator[SqliteDatabase]:
    """A SQLite database."""
    opened = open_database(sqlite_url)
    assert isinstance(opened, SqliteDatabase)
    opened.run_blocking(make_notes)
    yield opened
    opened.close()


@pytest.fixture
def postgresql_noted(postgresql_url: str) -> Iterator[Database]:
    """A PostgreSQL database."""
    opened = open_database(postgresql_url)
    opened.run_blocking(make_notes)
    yield opened
    opened.close()
