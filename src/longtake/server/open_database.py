"""Opening the database for a process: patient with short commands, strict about the schema, clear about failures."""

import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

import sqlalchemy.exc
import structlog

from longtake.db import Database, is_sqlite, open_database, sqlite_path
from longtake.db.errors import DatabaseOwned, DatabaseUnavailable, RightsMissing, RoleTooPowerful
from longtake.db.migrate import (
    MigrationStatus,
    migrate_up,
    migration_status,
    require_current_schema,
    with_migrations,
)
from longtake.db.ownership import CANNOT_USE_HINT, COMMAND, MIGRATION, PATIENCE_SECONDS, PAUSE_SECONDS, FileOwnership
from longtake.redaction import redact_text
from longtake.server.capabilities import CAPABILITIES
from longtake.settings import Settings

R = TypeVar("R")
#: The packages that bring tables: a later one may need an earlier one's.
LOCATIONS = ("longtake.engine", "longtake.http", "longtake.services", *with_migrations(CAPABILITIES))
log = structlog.get_logger(__name__)


def open_for_service(settings: Settings, owner: str) -> Database:
    """Open the database for a server or worker.

    A SQLite file is made and migrated by itself: one process owns it, so no other is affected. A PostgreSQL
    database may be shared with other versions of this program; there a person decides when to migrate.
    """
    if is_sqlite(settings.database_url):
        pending = schema_status(settings).pending
        if pending:
            patiently(migrate_service, settings.database_url)
            log.info("tables brought up to date", action="migrate", migrations=pending)
    else:
        clearly(settings.database_url, lambda: _require_readable_schema(settings.database_url))
        require_plain_role(settings)
    return patiently(lambda url: _open(settings, url, owner), settings.database_url)


def require_plain_role(settings: Settings) -> None:
    """Refuse a role that bypasses row level security, or that cannot switch to the roles it applies to."""
    from longtake.db.roles import require_bound_role, require_rights  # noqa: PLC0415 - PostgreSQL's driver comes with it

    require_rights(settings.database_url)
    try:
        require_bound_role(settings.database_url)
    except RoleTooPowerful as error:
        if not settings.allow_superuser:
            raise
        log.warning("users' rows are not kept apart by the database", action="start", code=error.code, error=str(error))


def _require_readable_schema(url: str) -> None:
    try:
        require_current_schema(url, LOCATIONS)
    except RightsMissing:
        from longtake.db.roles import require_rights  # noqa: PLC0415 - as above

        # Where the role lacks its membership, that is the clearer answer.
        require_rights(url)
        raise


def set_up(settings: Settings, admin_url: str = "") -> list[str]:
    """Make roles and database, if there is an administrator's address to do it with; return what was made."""
    admin_url = admin_url or settings.admin_url.get_secret_value()
    if not admin_url:
        return []
    from longtake.db.roles import set_up_roles  # noqa: PLC0415 - as above

    return set_up_roles(admin_url, settings.database_url)


def open_for_command(settings: Settings, ownership: FileOwnership | None) -> Database:
    """Open the database for one command, which has taken its file already where it is SQLite's."""
    url = settings.database_url
    try:
        clearly(url, lambda: require_current_schema(url, LOCATIONS))
        return clearly(url, lambda: _open(settings, url, ownership or COMMAND))
    except BaseException:
        if ownership is not None:
            ownership.release()
        raise


def migrate_service(url: str) -> MigrationStatus:
    """Bring all tables of the service to their newest migration."""
    return migrate_up(url, LOCATIONS)


def schema_status(settings: Settings) -> MigrationStatus:
    """Say which migrations the database has and needs."""
    return clearly(settings.database_url, lambda: migration_status(settings.database_url, LOCATIONS))


def patiently(call: Callable[[str], R], url: str) -> R:
    """Call with the address; while a short command has the file, wait for it."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return clearly(url, lambda: call(url))
        except DatabaseOwned as error:
            briefly = COMMAND in error.message or MIGRATION in error.message
            if not briefly or time.monotonic() > give_up_at:
                raise
        time.sleep(PAUSE_SECONDS)


def clearly(url: str, call: Callable[[], R]) -> R:
    """Call; turn errors of the system or driver about a file or server into Longtake's errors."""
    place = str(sqlite_path(url)) if is_sqlite(url) else "The database"
    try:
        return call()
    except OSError as error:
        raise DatabaseUnavailable(
            f"{place} cannot be opened: {error.strerror or error}.", hint=CANNOT_USE_HINT
        ) from error
    except sqlite3.DatabaseError as error:
        raise DatabaseUnavailable(f"{place} cannot be used: {error}.", hint=CANNOT_USE_HINT) from error
    except sqlalchemy.exc.DBAPIError as error:
        reason = redact_text(str(error.orig).split("\n", 1)[0])
        raise DatabaseUnavailable(f"{place} cannot be used: {reason}.", hint=CANNOT_USE_HINT) from error


def _open(settings: Settings, url: str, owner: str | FileOwnership) -> Database:
    return open_database(
        url,
        owner=owner,
        threads=settings.database_threads,
        statement_seconds=settings.database_statement_seconds,
    )
