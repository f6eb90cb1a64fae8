"""Whether a contender's own state says that all of its jobs are over.

A job counts as done when its end is stored, not when its handler returns. These checks are read from outside, by the
measuring process, and only after the last handler was entered, so they cost the contender nothing while it works.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any

Check = Callable[[], bool]
Observer = Callable[[str], AbstractContextManager[Check]]


def in_postgresql(query: str) -> Observer:
    """Build an observer from a query that yields true once nothing is left."""

    @contextmanager
    def observe(url: str) -> Iterator[Check]:
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            yield lambda: first_value(connection.execute(query.encode()))

    return observe


def in_sqlite(query: str) -> Observer:
    """As `in_postgresql`, on a read-only connection to the file."""

    @contextmanager
    def observe(url: str) -> Iterator[Check]:
        address = f"file:{sqlite_file(url)}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
            yield lambda: first_value(connection.execute(query))

    return observe


def in_redis(is_over: Callable[[Any], bool]) -> Observer:
    """Build an observer from a function of a Redis client."""

    @contextmanager
    def observe(url: str) -> Iterator[Check]:
        from redis import Redis

        with closing(Redis.from_url(url)) as client:
            yield lambda: is_over(client)

    return observe


def first_value(cursor: Any) -> bool:
    return bool(cursor.fetchone()[0])


def sqlite_file(url: str) -> str:
    return url.removeprefix("sqlite:///")
