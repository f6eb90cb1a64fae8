"""Fixtures: every test that takes ``database`` or ``database_url`` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import math
import shutil
import signal
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from psycopg.errors import DeadlockDetected

from longtake import Database, open_database
from longtake.db import postgresql, postgresql_session
from longtake.engine import lane_store
from longtake.engine.lanes import STALE_SECONDS
from longtake.server.open_database import migrate_service
from tests.databases import PostgresqlServer, StoppedClock, open_with_clock
from tests.failures import describe_failure
from tests.s3_server import S3Server, start_s3_server

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path


def pytest_configure() -> None:
    """Let no example be judged by the clock, and let signals reach the commands that tests start.

    A shell may have begun the tests with signals ignored.
    """
    settings.register_profile("longtake", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("longtake")
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell with a failure its database, its seed, and the last lines of the processes that ran."""
    report = yield
    if report.failed:
        report.sections += describe_failure(item)
    return report


@pytest.fixture(scope="session", autouse=True)
def _claims_may_stall() -> Iterator[None]:
    """Let a claim count however long the machine holds it up: a worker would claim again, a test claims once."""
    with patch.object(lane_store, "STALE_SECONDS", math.inf):
        yield


@pytest.fixture
def stale_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse claims from lanes in transactions that stood still, as workers do."""
    monkeypatch.setattr(lane_store, "STALE_SECONDS", STALE_SECONDS)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """One private server for the whole session."""
    server = PostgresqlServer()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One private S3 server for the whole session, started when the first test needs it."""
    server = start_s3_server()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with all tables, to be copied."""
    path = tmp_path_factory.mktemp("template") / "longtake.db"
    migrate_service(f"sqlite:///{path}")
    return path


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A fresh SQLite database."""
    path = tmp_path / "longtake.db"
    shutil.copyfile(sqlite_template, path)
    return f"sqlite:///{path}"


@pytest.fixture
def postgresql_url(postgresql_server: PostgresqlServer) -> Iterator[str]:
    """A fresh PostgreSQL database."""
    url = postgresql_server.lend_database()
    yield url
    postgresql_server.take_back(url)


@pytest.fixture(autouse=True)
def deadlocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[BaseException]]:
    """The deadlocks that PostgreSQL ended. The program repeats what they hit, so a test would pass: it fails here."""
    met: list[BaseException] = []

    def is_repeatable(error: BaseException) -> bool:
        if isinstance(postgresql_session.original(error), DeadlockDetected):
            met.append(error)
        return postgresql_session.is_repeatable(error)

    monkeypatch.setattr(postgresql, "is_repeatable", is_repeatable)
    yield met
    assert not met, "transactions deadlocked: docs/decisions/0022-lock-order.md says what is locked before what"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A fresh database of either kind."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An open database on real time."""
    opened = open_database(database_url)
    yield opened
    opened.close()


@pytest.fixture
def clock() -> StoppedClock:
    """A clock that moves only when told."""
    return StoppedClock()


@pytest.fixture
def stopped_database(database_url: str, clock: StoppedClock) -> Iterator[Database]:
    """An open database whose ``longtake_now()`` is the stopped clock's."""
    with open_with_clock(database_url, clock) as opened:
        yield opened
