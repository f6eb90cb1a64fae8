"""SQLite: one file, one owning process, one writer thread, several readers."""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import structlog

from longtake.clock import Clock, SystemClock, new_id
from longtake.db.database import Call, Database, Signals, Transaction
from longtake.db.dialects import SQLITE
from longtake.db.errors import DatabaseBusy, DatabaseUnavailable
from longtake.db.ownership import FileOwnership
from longtake.db.sqlite_connection import SqliteConnection, translate
from longtake.errors import SettingsError

R = TypeVar("R")

READERS = 4
#: The first version with the ``->>`` operator.
OLDEST_SQLITE = (3, 38, 0)
GROUP_LIMIT = 256
WAITING_LIMIT = 20_000
#: How often the owner looks whether an outside program has written.
OUTSIDE_WRITES_SECONDS = 0.2

log = structlog.get_logger(__name__)


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

    async def _transact(self, call: Call[R]) -> R:
        loop = asyncio.get_running_loop()
        if not call.read_only:
            future: asyncio.Future[R] = loop.create_future()
            self._group_commit.submit(Waiting(call, future))
            return await future
        if self._closed:
            raise DatabaseUnavailable("The database is closed.")
        return await loop.run_in_executor(self._readers, self._read, call)

    def _transact_blocking(self, call: Call[R]) -> R:
        future: Future[R] = Future()
        self._group_commit.submit(Waiting(call, future))
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

    def _read(self, call: Call[R]) -> R:
        try:
            connection: SqliteConnection | None = getattr(self._reading, "connection", None)
            if connection is None:
                connection = SqliteConnection(self.path, self._clock, self.signals, writable=False)
                self._reading.connection = connection
                self._reader_connections.append(connection)
            connection.control("BEGIN")
            try:
                with connection.guarded():
                    return call.within(connection.transaction(call.user))
            finally:
                connection.roll_back()
        except Exception as error:
            raise translate(error) from error


@dataclass(slots=True, eq=False)
class Waiting:
    """A call in the queue, and whom to tell: an event loop's caller, or a thread."""

    work: Call[Any]
    future: asyncio.Future[Any] | Future[Any]
    transaction: Transaction | None = None
    result: Any = None
    error: BaseException | None = None

    def call(self, connection: SqliteConnection) -> None:
        self.error = None
        self.transaction = connection.transaction(self.work.user)
        try:
            with connection.guarded():
                self.result = self.work.within(self.transaction)
        except BaseException as error:  # noqa: BLE001 - its caller gets every error
            self.error = translate(error)

    def committed(self) -> None:
        """Run what was to be done after the commit."""
        if self.error is None and self.transaction is not None:
            self.transaction.committed()

    def tell(self) -> None:
        """Hand the result to the caller, who may have gone."""
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class GroupCommit:
    """The writer thread and its queue: many callers per fsync.

    Functions that wait are run one after another, each in its savepoint, and committed together; a caller hears of
    success only after that commit. If the shared transaction is lost (disk full, I/O error), no caller is told success
    and each function is run again by itself.
    """

    def __init__(self, connection: SqliteConnection, on_outside_write: Callable[[], None]) -> None:
        self._connection = connection
        self._on_outside_write = on_outside_write
        self._queue: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()
        self._version: int | None = None
        self._thread = threading.Thread(target=self._write_until_closed, name="longtake-write", daemon=True)
        self._thread.start()

    def submit(self, waiting: Waiting) -> None:
        """Queue a function; refuse it when there is no hope of its turn coming soon."""
        if self._queue.qsize() >= WAITING_LIMIT:
            raise DatabaseBusy(f"{WAITING_LIMIT} writes are waiting for the database already.")
        # Nothing may be queued behind the end: it would never be answered.
        with self._lock:
            if self._closed:
                raise DatabaseUnavailable("The database is closed.")
            self._queue.put(waiting)

    def close(self) -> None:
        """Commit what waits, then end the thread."""
        with self._lock:
            self._closed = True
            self._queue.put(None)
        self._thread.join()

    def _write_until_closed(self) -> None:
        """Whatever goes wrong, this thread must not end before it is told to: all callers would wait for ever."""
        self._look_outside()
        while True:
            try:
                first = self._queue.get(timeout=OUTSIDE_WRITES_SECONDS)
            except queue.Empty:
                self._look_outside()
                continue
            if first is None:
                return
            group = [first]
            self._commit_together(group)
            _tell_all(group)

    def _look_outside(self) -> None:
        try:
            before, self._version = self._version, self._connection.outside_version()
            if before not in {None, self._version}:
                self._on_outside_write()
        except Exception:
            log.exception("looking for outside writes failed", action="look")

    def _commit_together(self, group: list[Waiting]) -> None:
        """Run the first and all that wait besides in one transaction; the last resort is a transaction each."""
        try:
            self._connection.control("BEGIN IMMEDIATE")
            self._run_in_savepoint(group[0])
            while len(group) < GROUP_LIMIT and (waiting := self._next()) is not None:
                group.append(waiting)
                self._run_in_savepoint(waiting)
            self._connection.control("COMMIT")
        except sqlite3.Error:
            self._give_up()
            for waiting in group:
                self._commit_alone(waiting)
        else:
            for waiting in group:
                waiting.committed()

    def _next(self) -> Waiting | None:
        try:
            waiting = self._queue.get_nowait()
        except queue.Empty:
            return None
        if waiting is None:
            # Closing: this group is the last but what came after is answered too.
            self._queue.put(None)
        return waiting

    def _run_in_savepoint(self, waiting: Waiting) -> None:
        self._connection.control("SAVEPOINT one")
        waiting.call(self._connection)
        if not self._connection.driver.in_transaction:
            raise sqlite3.OperationalError("SQLite rolled the transaction back")
        if waiting.error is not None:
            self._connection.control("ROLLBACK TO one")
        self._connection.control("RELEASE one")

    def _commit_alone(self, waiting: Waiting) -> None:
        try:
            self._connection.control("BEGIN IMMEDIATE")
            waiting.call(self._connection)
            if waiting.error is None:
                self._connection.control("COMMIT")
        except sqlite3.Error as error:
            waiting.error = translate(error)
        self._give_up()
        waiting.committed()

    def _give_up(self) -> None:
        """Roll back if there is anything to; if even that fails, the next transaction begins with it."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.roll_back()


def _tell_all(group: Sequence[Waiting]) -> None:
    """Wake each event loop once for all its callers."""
    loops: dict[asyncio.AbstractEventLoop, list[Waiting]] = {}
    for waiting in group:
        if isinstance(waiting.future, asyncio.Future):
            loops.setdefault(waiting.future.get_loop(), []).append(waiting)
        else:
            waiting.tell()
    for loop, members in loops.items():
        # A closed loop has no caller left.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_tell_each, members)


def _tell_each(group: Sequence[Waiting]) -> None:
    for waiting in group:
        waiting.tell()
