"""The way to the jobs: directly to the database, or through the server that owns the SQLite file."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Any, Protocol

from psycopg.conninfo import conninfo_to_dict

from longtake.app.opening import COMMAND, MIGRATION, PATIENCE_SECONDS, PAUSE_SECONDS, open_for_command
from longtake.app.server_file import server_of_database
from longtake.cli.remote import ask_server
from longtake.db import Database
from longtake.db.urls import is_sqlite, postgresql_url, sqlite_path
from longtake.engine.engine import Engine
from longtake.errors import DatabaseOwned
from longtake.logs import configure_logs
from longtake.operator import perform
from longtake.settings import load_settings
from longtake.vault import RootSecret, Vault


class Ask(Protocol):
    """Performs an operator's action and returns its result."""

    def __call__(self, action: str, **arguments: Any) -> dict[str, Any]:
        """Do it, or raise one of Longtake's errors."""


@contextlib.contextmanager
def operator() -> Iterator[Ask]:
    """Yield the way to ask; connections are closed at the end."""
    settings = load_settings()
    configure_logs("human", "warning")
    with contextlib.ExitStack() as stack:
        server = database = None
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while server is None and database is None:
            try:
                database = open_for_command(settings)
            except DatabaseOwned as error:
                server = server_of_database(settings)
                if server is None:
                    _wait_or_give_up(error, give_up_at)
        if server is not None:
            found = server
            yield lambda action, **arguments: ask_server(found, action, arguments)
        elif database is not None:
            stack.callback(database.close)
            yield stack.enter_context(_directly(database, Vault.of(settings, RootSecret.of(settings))))


def ask(action: str, **arguments: Any) -> dict[str, Any]:
    """Ask once."""
    with operator() as way:
        return way(action, **arguments)


def database_place() -> str:
    """Return which database is asked, as people call it: a folder, or a name and its host."""
    url = load_settings().database_url
    if is_sqlite(url):
        return str(sqlite_path(url).parent)
    parts = conninfo_to_dict(postgresql_url(url))
    return f"the database {parts.get('dbname') or ''} at {parts.get('host') or 'this machine'}"


@contextlib.contextmanager
def _directly(database: Database, vault: Vault) -> Iterator[Ask]:
    # It declares nothing and knows no kinds: what needs a kind's own code is left to a worker that has it.
    engine = Engine(database)
    with asyncio.Runner() as runner:
        yield lambda action, **arguments: runner.run(perform(engine, action, arguments, {"vault": vault}))


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
