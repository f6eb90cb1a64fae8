"""Migrations, forward and back, on either database.

Nearly every process finds all migrations there, and asks no more than the table Alembic keeps. Alembic itself, and
PostgreSQL's driver, are imported by the functions that use them: they would take half of a command's time.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy
from sqlalchemy.pool import NullPool

from longtake.db.ownership import FileOwnership
from longtake.db.urls import is_sqlite, postgresql_url, sqlite_path
from longtake.errors import RightsMissing, SchemaMismatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alembic.config import Config
    from alembic.script import ScriptDirectory
    from sqlalchemy import Connection

MIGRATIONS = Path(__file__).parent / "migrations"

#: Any number will do, as long as all Longtake processes use the same.
MIGRATION_LOCK = 7_016_511_206


@dataclass(frozen=True)
class MigrationStatus:
    """Which migration the database is at, and which this program was written for."""

    current: str | None
    latest: str
    pending: list[str]

    @property
    def up_to_date(self) -> bool:
        """Say whether the tables are those this program expects."""
        return self.current == self.latest


def migrate_up(url: str) -> MigrationStatus:
    """Bring the database to the newest migration; a database that is there already is left alone."""
    with _connection(url) as connection:
        if _current(connection) != latest_migration():
            import alembic.command  # noqa: PLC0415

            alembic.command.upgrade(_config(connection), "head")
        return _status(connection)


def migrate_down(url: str, to: str = "base") -> MigrationStatus:
    """Undo migrations down to the given one (``base``: all of them)."""
    import alembic.command  # noqa: PLC0415

    with _connection(url) as connection:
        alembic.command.downgrade(_config(connection), to)
        return _status(connection)


def migration_status(url: str) -> MigrationStatus:
    """Say which migrations the database has."""
    if is_sqlite(url) and not sqlite_path(url).exists():
        return MigrationStatus(None, latest_migration(), _names(_script(), None))
    with _connection(url, owned=False) as connection:
        return _status(connection)


def require_current_schema(url: str) -> None:
    """Refuse to go on with tables that are not those this program was written for."""
    status = migration_status(url)
    if not status.up_to_date:
        at = status.current or "no migration at all"
        raise SchemaMismatch(f"The database is at {at}, this program needs {status.latest}.")


def _status(connection: Connection) -> MigrationStatus:
    current, latest = _current(connection), latest_migration()
    if current == latest:
        return MigrationStatus(current, latest, [])
    script = _script()
    known = {one.revision for one in script.walk_revisions()}
    if current is not None and current not in known:
        raise SchemaMismatch(
            f"The database is at migration {current}, which this version of Longtake does not know.",
            hint="Install the newer version of Longtake that made it.",
        )
    return MigrationStatus(current, latest, _names(script, current))


def latest_migration() -> str:
    """Return the newest migration of this program. Their files are numbered, so Alembic need not read them all."""
    return max(file.name.split("_", 1)[0] for file in (MIGRATIONS / "versions").glob("[0-9]*_*.py"))


def _current(connection: Connection) -> str | None:
    if not sqlalchemy.inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(sqlalchemy.text("SELECT version_num FROM alembic_version")).scalar()


def _script() -> ScriptDirectory:
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    return ScriptDirectory.from_config(_config(None))


def _names(script: ScriptDirectory, current: str | None) -> list[str]:
    pending = [one for one in script.walk_revisions(base=current or "base") if one.revision != current]
    return [f"{one.revision} {(one.doc or '').strip()}" for one in reversed(pending)]


def _config(connection: Connection | None) -> Config:
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    return config


@contextmanager
def _connection(url: str, *, owned: bool = True) -> Iterator[Connection]:
    """Open a connection that holds the lock of migrations: no other process migrates meanwhile."""
    ownership = None
    if is_sqlite(url):
        path = sqlite_path(url)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        ownership = FileOwnership(path, "longtake migrate") if owned else None
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            if not is_sqlite(url):
                connection.execute(sqlalchemy.text("SELECT pg_advisory_lock(:key)"), {"key": MIGRATION_LOCK})
                connection.commit()
            yield connection
            connection.commit()
    except sqlalchemy.exc.DBAPIError as error:
        raise _translated(error, url) from error
    finally:
        engine.dispose()
        if ownership is not None:
            ownership.release()


def _engine(url: str) -> sqlalchemy.Engine:
    """Connect as the program does: SQLAlchemy reads some addresses differently, and quotes them in its errors."""
    if not is_sqlite(url):
        import psycopg  # noqa: PLC0415

        return sqlalchemy.create_engine(
            "postgresql+psycopg://", creator=lambda: psycopg.connect(postgresql_url(url)), poolclass=NullPool
        )
    # Python's driver would begin no transaction before DDL: let it begin none at all, and begin them ourselves.
    engine = sqlalchemy.create_engine(
        "sqlite://", creator=lambda: sqlite3.connect(sqlite_path(url), isolation_level=None), poolclass=NullPool
    )

    @sqlalchemy.event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _translated(error: sqlalchemy.exc.DBAPIError, url: str) -> BaseException:
    if is_sqlite(url):
        return error
    import psycopg.errors  # noqa: PLC0415

    from longtake.db.postgresql_errors import is_lost, translate  # noqa: PLC0415
    from longtake.db.roles import making_by_hand  # noqa: PLC0415

    if isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
        return RightsMissing(
            f"The database role may not run this migration. (PostgreSQL: {str(error.orig).splitlines()[0]})",
            hint=making_by_hand(url),
        )
    return translate(error) if is_lost(error) else error
