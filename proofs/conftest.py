"""Fixtures of the proofs: those of the tests, but PostgreSQL keeps its data on the disk with fsync on."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.conftest import (
    clock,
    database,
    database_url,
    postgresql_url,
    pytest_configure,
    pytest_runtest_makereport,
    s3_server,
    sqlite_template,
    sqlite_url,
    stopped_database,
)
from tests.databases import PostgresqlServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "clock",
    "database",
    "database_url",
    "postgresql_url",
    "pytest_configure",
    "pytest_runtest_makereport",
    "s3_server",
    "sqlite_template",
    "sqlite_url",
    "stopped_database",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run be repeated, and last longer."""
    parser.addoption("--seed", type=int, default=None, help="repeat what chance decided in an earlier run")
    parser.addoption("--seconds", type=float, default=None, help="how long proofs that have no end of their own last")


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """One private server for the whole session, as durable as in production."""
    server = PostgresqlServer(durable=True)
    yield server
    server.stop()


@pytest.fixture
def seed(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> int:
    """What decides over chance. The report and the failure name it."""
    given = request.config.getoption("--seed")
    chosen = random.SystemRandom().randrange(10**9) if given is None else int(given)
    record_property("seed", chosen)
    return chosen


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float | None:
    """How long to go on, where a proof has no end of its own; None: as long as it does by itself."""
    given: float | None = request.config.getoption("--seconds")
    return given
