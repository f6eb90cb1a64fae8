"""Operators' commands: over HTTP to the server that owns the SQLite file, or on the database itself."""

import contextlib
import http.client
import importlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from longtake.db import is_sqlite, postgresql_url, sqlite_path
from longtake.db.errors import DatabaseOwned
from longtake.db.ownership import COMMAND, MIGRATION, PATIENCE_SECONDS, PAUSE_SECONDS, FileOwnership, take_for_command
from longtake.errors import LongtakeError, errors_by_code
from longtake.server.errors import ServerError, ServerUnreachable
from longtake.server.server_file import ServerFile, server_of_database
from longtake.settings import Settings, load_settings
from longtake.terminal.output import print_json, print_line

LIMIT_SECONDS = 10.0
#: Actions that read whole tables may take longer.
SLOW_ACTIONS = {"credits.audit": 300.0}
HTTP_OK = 200


class Ask(Protocol):
    """Performs an operator's action and returns its result."""

    def __call__(self, action: str, **arguments: Any) -> dict[str, Any]:
        """Perform it, or raise one of Longtake's errors."""


@contextlib.contextmanager
def operator() -> Iterator[Ask]:
    """Yield the function that performs actions; connections are closed at the end."""
    settings = load_settings()
    found = _take_or_find_server(settings)
    if isinstance(found, ServerFile):
        yield lambda action, **arguments: ask_server(found, action, arguments)
        return
    with _on_database(settings, found) as ask_database:
        yield ask_database


def ask(action: str, **arguments: Any) -> dict[str, Any]:
    """Perform one action."""
    with operator() as perform:
        return perform(action, **arguments)


def change(action: str, done: str, *, as_json: bool, **arguments: Any) -> None:
    """Perform an action and report it: its result as JSON, or the sentence `done`."""
    result = ask(action, **arguments)
    print_json(result) if as_json else print_line(done)


def database_place() -> str:
    """Return which database is asked: its folder, or its name and host."""
    url = load_settings().database_url
    if is_sqlite(url):
        return str(sqlite_path(url).parent)
    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(postgresql_url(url))
    return f"the database {parts.get('dbname') or ''} at {parts.get('host') or 'this machine'}"


def _take_or_find_server(settings: Settings) -> ServerFile | FileOwnership | None:
    """Return the server that owns the SQLite file, or else the file's ownership; None for PostgreSQL."""
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
    """Wait for another command to end, or for a starting server; a worker alone takes no commands."""
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


@contextlib.contextmanager
def _on_database(settings: Settings, ownership: FileOwnership | None) -> Iterator[Ask]:
    """Yield the function that performs actions on the database; at the end it is closed and its file released."""
    # Loading the engine and SQLAlchemy takes longest, and commands that ask a server need neither.
    import asyncio

    from longtake.engine.engine import Engine
    from longtake.logs import configure_logs
    from longtake.server.capabilities import operator_actions
    from longtake.server.open_database import open_for_command
    from longtake.services.vault.root_secret import RootSecret
    from longtake.services.vault.vault import Vault

    configure_logs("human", "warning")
    vault = Vault.of(settings, RootSecret.of(settings))
    with contextlib.closing(open_for_command(settings, ownership)) as database, asyncio.Runner() as runner:
        # This engine declares no kinds: what needs a kind's own code is left to a worker that has it.
        engine, actions = Engine(database), operator_actions(lambda: vault)
        yield lambda action, **arguments: runner.run(actions.perform(engine, action, arguments))


def ask_server(server: ServerFile, action: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Perform the action on the running server, over loopback; its errors are raised as if they happened here."""
    address = urlsplit(server.url)
    limit = SLOW_ACTIONS.get(action, LIMIT_SECONDS)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=limit)
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    try:
        connection.request("POST", f"/v1/operator/{action}", json.dumps(dict(arguments)), headers)
        response = connection.getresponse()
        status, body = response.status, response.read()
    except TimeoutError:
        raise ServerUnreachable(f"The server at {server.url} did not answer within {limit:g} s.") from None
    except (OSError, http.client.HTTPException) as error:
        raise ServerUnreachable(f"The server at {server.url} cannot be reached: {error}.") from None
    finally:
        connection.close()
    content = _parse(server, body)
    if status == HTTP_OK:
        return content
    raise error_of(
        str(content.get("code", "")),
        str(content.get("detail", "The server refused.")),
        str(content.get("hint", "")),
    )


def _parse(server: ServerFile, body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ServerUnreachable(f"The program that answers at {server.url} is not a Longtake server.")
    return content


def error_of(code: str, message: str, hint: str) -> LongtakeError:
    """Return a server's refusal as the error that it was there."""
    # These end a command with an exit code of their own.
    for package in ("adapters.storage", "engine", "services.accounts", "services.vault"):
        importlib.import_module(f"longtake.{package}.errors")
    kind = errors_by_code().get(code, ServerError)
    error = kind(message, hint=hint)
    # A problem that only HTTP knows keeps its own code.
    error.code = code or kind.code
    return error
