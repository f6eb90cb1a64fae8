"""Transactions as plain functions, on SQLite and PostgreSQL alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtake.db.database import Database, Transaction, planned_once
from longtake.db.urls import is_sqlite, postgresql_url, sqlite_path

if TYPE_CHECKING:
    from longtake.clock import Clock
    from longtake.db.ownership import FileOwnership

__all__ = ["Database", "Transaction", "open_database", "planned_once"]


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
    taken before; closing the database gives it back. ``clock`` is SQLite's only: on
    PostgreSQL the server's clock decides.
    """
    # Only the driver that is needed is loaded: a command then answers in half the time.
    if is_sqlite(url):
        from longtake.db.sqlite import SqliteDatabase  # noqa: PLC0415

        return SqliteDatabase(sqlite_path(url), clock=clock, owner=owner)
    from longtake.db.postgresql import PostgresqlDatabase  # noqa: PLC0415
    from longtake.db.postgresql_session import SessionOptions  # noqa: PLC0415

    options = SessionOptions(postgresql_url(url), statement_seconds=statement_seconds)
    return PostgresqlDatabase(options, threads=threads)
