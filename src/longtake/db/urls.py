"""Addresses of databases."""

from __future__ import annotations

from pathlib import Path

from longtake.errors import SettingsError

SQLITE_PREFIX = "sqlite:///"
POSTGRESQL_PREFIXES = ("postgresql://", "postgres://", "postgresql+psycopg://")


def is_sqlite(url: str) -> bool:
    """Say whether the address is a SQLite file's; refuse what is neither that nor PostgreSQL's."""
    if url.startswith(SQLITE_PREFIX) and len(url) > len(SQLITE_PREFIX):
        return True
    if url.startswith(POSTGRESQL_PREFIXES):
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


def sqlalchemy_url(url: str) -> str:
    """Return the address as SQLAlchemy reads it, for migrations."""
    return url if is_sqlite(url) else "postgresql+psycopg://" + url.split("://", 1)[1]
