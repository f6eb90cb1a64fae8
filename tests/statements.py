"""Counting what is sent to a database, at the driver: Core's statements, prepared ones and plain SQL alike."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from longtake.db.postgresql import NO_WAIT, NOTIFY
from longtake.db.postgresql_session import SERVER_LIFE
from longtake.db.sqlite_connection import OURS, SqliteConnection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtake import Database, Transaction


@contextmanager
def statements(database: Database) -> Iterator[list[str]]:
    """Return a list that grows with every statement that is sent.

    On PostgreSQL each is a round trip, BEGIN and COMMIT among them. On SQLite these are left out: a group of writes has
    them once, and how many share a group is a matter of chance.
    """
    sent: list[str] = []
    with _on_sqlite(sent) if database.dialect == "sqlite" else _on_postgresql(sent):
        yield sent


@contextmanager
def _on_sqlite(sent: list[str]) -> Iterator[None]:
    transaction = SqliteConnection.transaction
    traced: list[SqliteConnection] = []

    def note(statement: str) -> None:
        # For every trigger that a statement sets off it is told once more, or the trigger's own as a comment.
        if OURS not in statement and not statement.startswith(("--", "PRAGMA")) and statement not in sent[-1:]:
            sent.append(statement)

    def tracing(connection: SqliteConnection, user: str | None) -> Transaction:
        # Connections for reading are made when they are needed.
        traced.append(connection)
        connection.driver.set_trace_callback(note)
        return transaction(connection, user)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteConnection, "transaction", tracing)
        yield
    for connection in traced:
        connection.driver.set_trace_callback(None)


@contextmanager
def _on_postgresql(sent: list[str]) -> Iterator[None]:
    execute, execute_many = psycopg.Cursor.execute, psycopg.Cursor.executemany

    def note(query: Any) -> None:
        text = query.decode() if isinstance(query, bytes) else str(query)
        # Signals go out by a thread and a connection of their own, some time after the commit. And any call may be the
        # first of its thread, which connects and asks for the server's life.
        if text not in {NOTIFY, NO_WAIT, SERVER_LIFE}:
            sent.append(text)

    def noted(cursor: psycopg.Cursor[Any], query: Any, *arguments: Any, **options: Any) -> Any:
        note(query)
        return execute(cursor, query, *arguments, **options)

    def noted_many(cursor: psycopg.Cursor[Any], query: Any, *arguments: Any, **options: Any) -> None:
        # All its rows travel together.
        note(query)
        execute_many(cursor, query, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", noted)
        patch.setattr(psycopg.Cursor, "executemany", noted_many)
        yield
