"""Transactions as plain functions, on SQLite and PostgreSQL alike."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from longtake.db.database import Database, Transaction, planned_once
from longtake.errors import SettingsError

if TYPE_CHECKING:
    from longtake.clock import Clock
    from longtake.db.ownership import FileOwnership

__all__ = ["Database", "Transaction", "is_sqlite", "open_database", "planned_once", "postgresql_url", "sqlite_path"]

SQLITE_PREFIX = "sqlite:///"
POSTGRESQL_PREFIXES = ("postgresql://", "postgres://", "postgresql+psycopg://")


def open_database(
    url: str,
    *,
    clock: Clock | None = None,
    owner: str | FileOwnership = "a Longtake process",
    threads: int = 8,
    statement_seconds: float = 30.0,
) -> Database:
    """Open the database at the address; the tables must be there (see ``migrate_up``).

    ``owner`` is what another process reads when it finds a SQLite file taken, or the ownership of a file that was
    taken before; closing the database gives it back. ``clock`` is for SQLite: PostgreSQL has the server's clock.
    """
    # Only the driver that is needed is loaded: a command then answers in half the time.
    if is_sqlite(url):
        from longtake.db.sqlite import SqliteDatabase  # noqa: PLC0415

        return SqliteDatabase(sqlite_path(url), clock=clock, owner=owner)
    from longtake.db.postgresql import PostgresqlDatabase  # noqa: PLC0415
    from longtake.db.postgresql_session import SessionOptions  # noqa: PLC0415

    options = SessionOptions(postgresql_url(url), statement_seconds=statement_seconds)
    return PostgresqlDatabase(options, threads=threads)


def is_sqlite(url: str) -> bool:
    """Say whether the address is a SQLite file's; refuse what is neither that nor PostgreSQL's."""
    if url.startswith(SQLITE_PREFIX) and len(url) > len(SQLITE_PREFIX):
        return True
    if url.startswith(POSTGRESQL_PREFIXES):
        _require_readable(url)
        return False
    scheme = url.split(":", 1)[0]
    raise SettingsError(
        f"The database address begins with {scheme!r}, which is neither SQLite nor PostgreSQL.",
        hint="Examples: sqlite:///longtake-data/longtake.db (a file), postgresql://user:password@host/name",
    )


def sqlite_path(url: str) -> Path:
    """Return the file; four slashes begin an absolute path, as everywhere else."""
    return Path(url.removeprefix(SQLITE_PREFIX))


def postgresql_url(url: str) -> str:
    """Return the address as libpq reads it."""
    return "postgresql://" + url.split("://", 1)[1]


def _require_readable(url: str) -> None:
    # Here, so that nothing that asks after a SQLite file waits for PostgreSQL's driver.
    import psycopg  # noqa: PLC0415
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    try:
        conninfo_to_dict(postgresql_url(url))
    except psycopg.ProgrammingError:
        # What libpq says may quote the password.
        raise SettingsError(
            "The database address cannot be read.",
            hint="In a password write @ as %40, / as %2F, : as %3A, % as %25; after ? only what libpq knows.",
        ) from None
