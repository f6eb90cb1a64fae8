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
