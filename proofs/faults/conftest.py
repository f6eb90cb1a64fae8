"""Fixtures for faults: a lab on either database, and a PostgreSQL server that may be stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proofs.faults.lab import Lab
from proofs.faults.servers import StoppableServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _lab(url: str, folder: Path) -> Iterator[Lab]:
    lab = Lab(url, folder)
    yield lab
    lab.end()


@pytest.fixture
def lab(database_url: str, tmp_path: Path) -> Iterator[Lab]:
    """On SQLite and on PostgreSQL."""
    yield from _lab(database_url, tmp_path)


@pytest.fixture
def sqlite_lab(sqlite_url: str, tmp_path: Path) -> Iterator[Lab]:
    """On SQLite only."""
    yield from _lab(sqlite_url, tmp_path)


@pytest.fixture
def postgresql_lab(postgresql_url: str, tmp_path: Path) -> Iterator[Lab]:
    """On PostgreSQL only."""
    yield from _lab(postgresql_url, tmp_path)


@pytest.fixture(scope="session")
def stoppable_server() -> Iterator[StoppableServer]:
    """A server that nobody else uses; whoever stops it starts it again."""
    server = StoppableServer()
    yield server
    server.stop()


@pytest.fixture
def restarted_lab(stoppable_server: StoppableServer, tmp_path: Path) -> Iterator[Lab]:
    """On the PostgreSQL server that may be stopped."""
    stoppable_server.start()
    url = stoppable_server.new_database()
    yield from _lab(url, tmp_path)
    stoppable_server.start()
    stoppable_server.drop_database(url)
