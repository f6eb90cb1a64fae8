"""A database seen from outside: plain SQL on a connection of its own, without going through Longtake."""

from __future__ import annotations

import sqlite3
from typing import Any

import psycopg

from tests.wait import PATIENCE_SECONDS

SQLITE = "sqlite:///"


def plain_sql(url: str, statement: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Run one statement in a transaction of its own; parameters are written as ``?``."""
    if url.startswith(SQLITE):
        connection = sqlite3.connect(url.removeprefix(SQLITE), timeout=PATIENCE_SECONDS, isolation_level=None)
        try:
            return connection.execute(statement, parameters).fetchall()
        finally:
            connection.close()
    with psycopg.connect(url, autocommit=True) as server:
        cursor = server.execute(statement.replace("?", "%s").encode(), parameters)
        return cursor.fetchall() if cursor.description else []
