"""SQLite: one file, one owning process, one writer thread, several readers."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from longtake.clock import Clock, SystemClock, new_id
from longtake.db.database import Database, Signals, Transaction, with_named
from longtake.db.dialects import SQLITE
from longtake.db.group_commit import GroupCommit, Waiting
from longtake.db.ownership import FileOwnership
from longtake.db.sqlite_connection import SqliteConnection, translate
from longtake.errors import DatabaseUnavailable, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Ts = TypeVarTuple("Ts")
R = TypeVar("R")

READERS = 4
#: The first version with the ``->>`` operator.
OLDEST_SQLITE = (3, 38, 0)


class SqliteDatabase(Database):
    """Owns the file from opening to closing."""

    dialect = SQLITE

    def __init__(
        self, path: Path, *, clock: Clock | None = None, owner: str | FileOwnership = "a Longtake process"
    ) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise SettingsError(
                f"This Python has SQLite {sqlite3.sqlite_version}; 3.38 or newer is needed.",
                hint="Use a newer Python, or PostgreSQL (LONGTAKE_DATABASE_URL).",
            )
        self.path = path
        self.incarnation = new_id()
        self.signals = Signals()
        self._clock = clock or SystemClock()
        self._closed = False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._ownership = owner if isinstance(owner, FileOwnership) else FileOwnership(path, owner)
        try:
            self._writer = SqliteConnection(path, self._clock, self.signals, writable=True)
        except BaseException as error:
            self._ownership.release()
            raise translate(error) from error
        self._group_commit = GroupCommit(self._writer, lambda: self.signals.deliver("jobs"))
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="longtake-read")
        self._reading = threading.local()
        self._reader_connections: list[SqliteConnection] = []

    async def run(
        self, function: Callable[[Transaction, *Ts], R], *arguments: *Ts, as_user: str | None = None, **named: Any
    ) -> R:
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._group_commit.submit(Waiting(with_named(function, named), arguments, as_user, future))
        return await future

    async def read(
        self, function: Callable[[Transaction, *Ts], R], *arguments: *Ts, as_user: str | None = None, **named: Any
    ) -> R:
        if self._closed:
            raise DatabaseUnavailable("The database is closed.")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._read, with_named(function, named), arguments, as_user)

    def run_blocking(self, function: Callable[[Transaction, *Ts], R], *arguments: *Ts, **named: Any) -> R:
        future: Future[R] = Future()
        self._group_commit.submit(Waiting(with_named(function, named), arguments, None, future))
        return future.result()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._group_commit.close()
        self._readers.shutdown()
        for connection in self._reader_connections:
            connection.close()
        # The last connection to close does this too, but another program or a reader may be the last.
        self._writer.empty_log()
        self._writer.close()
        self._ownership.release()

    def _read(self, function: Callable[..., R], arguments: tuple[Any, ...], user: str | None) -> R:
        try:
            connection: SqliteConnection | None = getattr(self._reading, "connection", None)
            if connection is None:
                connection = SqliteConnection(self.path, self._clock, self.signals, writable=False)
                self._reading.connection = connection
                self._reader_connections.append(connection)
            connection.control("BEGIN")
            try:
                with connection.guarded():
                    return function(connection.transaction(user), *arguments)
            finally:
                connection.roll_back()
        except Exception as error:
            raise translate(error) from error
