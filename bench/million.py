"""A database with a million tasks, as a busy service has after two months; written by SQL in about a minute.

Tasks belong to 2,000 users; one of them has 5 % of all that have ended. 100,000 tasks wait for their provider, each
with its job, and 10,000 run. Indexes are made after the rows, which is faster and leaves the same ones. PostgreSQL is
vacuumed and analyzed, as its own service would have done while the rows came.
"""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from bench.ground import Ground, say
from bench.million_rows import statements
from bench.service import Service, service_on
from bench.settled import sqlite_file

TASKS = 1_000_000


def million_on(ground: Ground, dialect: str) -> Service:
    """Return a service on a loaded database; loaded once for all parts."""
    return ground.keep(f"million tasks on {dialect}", lambda: loaded(ground, dialect))


@contextmanager
def loaded(ground: Ground, dialect: str) -> Iterator[Service]:
    tasks = ground.options.number(TASKS)
    with service_on(ground, dialect) as service:
        begun = time.monotonic()
        run_all = run_on_postgresql if dialect == "postgresql" else run_on_sqlite
        run_all(service.database, statements(dialect, tasks))
        say(f"  {tasks:,} tasks written on {dialect} in {time.monotonic() - begun:.0f} s")
        yield service


def run_on_postgresql(url: str, wanted: Sequence[str]) -> None:
    import psycopg

    found = (
        "SELECT indexname, indexdef FROM pg_indexes WHERE tablename IN ('tasks', 'assets', 'jobs')"
        " AND indexname NOT LIKE '%_pkey' AND indexname NOT IN (SELECT conname FROM pg_constraint)"
    )
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("SET maintenance_work_mem = '256MB'")
        with session.transaction():
            indexes: list[tuple[Any, ...]] = session.execute(found).fetchall()
            for name, _definition in indexes:
                session.execute(f"DROP INDEX {name}".encode())
            for statement in [*wanted, *(definition for _name, definition in indexes)]:
                session.execute(statement.encode())
        session.execute("VACUUM ANALYZE")


def run_on_sqlite(url: str, wanted: Sequence[str]) -> None:
    found = (
        "SELECT name, sql FROM sqlite_master WHERE tbl_name IN ('tasks', 'assets', 'jobs')"
        " AND type = 'index' AND sql IS NOT NULL"
    )
    with closing(sqlite3.connect(sqlite_file(url), isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = -400000")
        connection.execute("BEGIN IMMEDIATE")
        indexes = connection.execute(found).fetchall()
        for name, _definition in indexes:
            connection.execute(f"DROP INDEX {name}")
        for statement in [*wanted, *(definition for _name, definition in indexes)]:
            connection.execute(statement)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
