"""The way to the jobs: directly to the database, or through the server that owns the SQLite file."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any, Protocol

from longtake.cli.operator_http import ask_server
from longtake.db.ownership import FileOwnership
from longtake.db.urls import is_sqlite, postgresql_url, sqlite_path
from longtake.errors import DatabaseOwned
from longtake.server.file_owner import COMMAND, MIGRATION, PATIENCE_SECONDS, PAUSE_SECONDS, take_for_command
from longtake.server.server_file import ServerFile, server_of_database
from longtake.settings import Settings, load_settings


class Ask(Protocol):
    """Performs an operator's action and returns its result."""

    def __call__(self, action: str, **arguments: Any) -> dict[str, Any]:
        """Do it, or raise one of Longtake's errors."""


@contextlib.contextmanager
def operator() -> Iterator[Ask]:
    """Yield the way to ask; connections are closed at the end."""
    settings = load_settings()
    found = _take_or_find_server(settings)
    if isinstance(found, ServerFile):
        yield lambda action, **arguments: ask_server(found, action, arguments)
        return
    # The engine and SQLAlchemy, which take longest to load, only where no server does the work.
    from longtake.cli.operator_database import directly

    with directly(settings, found) as way:
        yield way


def ask(action: str, **arguments: Any) -> dict[str, Any]:
    """Ask once."""
    with operator() as way:
        return way(action, **arguments)


def database_place() -> str:
    """Return which database is asked, as people call it: a folder, or a name and its host."""
    url = load_settings().database_url
    if is_sqlite(url):
        return str(sqlite_path(url).parent)
    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(postgresql_url(url))
    return f"the database {parts.get('dbname') or ''} at {parts.get('host') or 'this machine'}"


def _take_or_find_server(settings: Settings) -> ServerFile | FileOwnership | None:
    """Return the server that has the SQLite file, or else the file's ownership; None for PostgreSQL."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return take_for_command(settings.database_url)
        except DatabaseOwned as error:
            server = server_of_database(settings)
            if server is not None:
                return server
            _wait_or_give_up(error, give_up_at)


def _wait_or_give_up(error: DatabaseOwned, give_up_at: float) -> None:
    """Wait for another command, or for a server that has just begun; a worker alone cannot be asked anything."""
    if time.monotonic() < give_up_at:
        time.sleep(PAUSE_SECONDS)
        return
    briefly = COMMAND in error.message or MIGRATION in error.message
    hint = (
        "Try again in a moment."
        if briefly
        else "It takes no commands. Run `longtake serve` instead, or use PostgreSQL."
    )
    raise DatabaseOwned(error.message, hint=hint)
