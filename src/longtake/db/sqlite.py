"""SQLite: one file, one owning process, one writer thread, many callers per fsync.

**Group commit.** Functions that wait for the writer are run one after another, each in its savepoint, and committed
together; a caller hears of success only after that commit. If the shared transaction is lost (disk full, I/O
error), nobody is told success and each function is run again by itself.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

import sqlalchemy
from sqlalchemy.pool import StaticPool

from longtake.clock import Clock, SystemClock, new_id
from longtake.db.database import Database, Transaction
from longtake.db.dialects import SQLITE, instant_to_text, sqlite_later, sqlite_seconds_until
from longtake.db.ownership import FileOwnership
from longtake.db.signals import Signals
from longtake.db.sqlite_errors import translate
from longtake.errors import DatabaseBusy, DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

Ts = TypeVarTuple("Ts")
R = TypeVar("R")

GROUP_LIMIT = 256
WAITING_LIMIT = 20_000
BUSY_SECONDS = 10.0
READERS = 4
#: How often the owner looks whether an outside program has written.
OUTSIDE_WRITES_SECONDS = 0.2
#: Marks our own transaction statements, so that the guard can tell them from a function's.
OURS = "/* longtake */"


class _Waiting:
    """A function in the queue, and whom to tell."""

    __slots__ = ("arguments", "error", "function", "future", "loop", "result", "transaction", "user")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...], user: str | None) -> None:
        self.function = function
        self.arguments = arguments
        self.user = user
        self.loop: asyncio.AbstractEventLoop | None = None
        self.future: Any = None
        self.transaction: Transaction | None = None
        self.result: Any = None
        self.error: BaseException | None = None

    def tell(self) -> None:
        """Hand the result to the caller, who may have gone."""
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class _Connection:
    """A connection whose ``now()`` is the time at which the running function began."""

    def __init__(self, path: Path, clock: Clock, *, writable: bool) -> None:
        self._clock = clock
        self._now: datetime = clock.now()
        mode = "rwc" if writable else "ro"
        # isolation_level=None: no transaction begins unless we say so.
        self.driver = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
        self.driver.create_function("now", 0, lambda: instant_to_text(self._now), deterministic=True)
        self.driver.create_function("later", 1, lambda s: sqlite_later(self._now, s), deterministic=True)
        self.driver.create_function("seconds_until", 1, lambda t: sqlite_seconds_until(self._now, t))
        for pragma in ("foreign_keys = ON", "temp_store = MEMORY", "cache_size = -16000"):
            self.driver.execute(f"PRAGMA {pragma}")
        engine = sqlalchemy.create_engine("sqlite://", creator=lambda: self.driver, poolclass=StaticPool)
        # Core's own transaction is begun once and never ended: BEGIN and COMMIT are ours alone.
        self.core = engine.connect().execution_options(isolation_level="AUTOCOMMIT")

    def transaction(self, user: str | None) -> Transaction:
        self._now = self._clock.now()
        return Transaction(self.core, self.driver.cursor(), user)

    def close(self) -> None:
        self.core.detach()
        self.driver.close()


class SqliteDatabase(Database):
    """Owns the file from opening to closing."""

    dialect = SQLITE

    def __init__(self, path: Path, *, clock: Clock | None = None, owner: str = "a Longtake process") -> None:
        self.path = path
        self._clock = clock or SystemClock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._ownership = FileOwnership(path, owner)
        self.signals = Signals()
        self.incarnation = new_id()
        try:
            self._writer = _Connection(path, self._clock, writable=True)
            self._prepare_writer()
        except BaseException as error:
            self._ownership.release()
            raise translate(error) from error
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._closed = False
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="longtake-read")
        self._reading = threading.local()
        self._reader_connections: list[_Connection] = []
        self._thread = threading.Thread(target=self._write_forever, name="longtake-write", daemon=True)
        self._thread.start()

    def _prepare_writer(self) -> None:
        driver = self._writer.driver
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "journal_size_limit = 67108864"):
            driver.execute(f"PRAGMA {pragma}")
        self._inside_function = False

        def guard(action: int, operation: str | None, *_rest: str | None) -> int:
            ends = action in {sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT}
            return sqlite3.SQLITE_DENY if ends and self._inside_function else sqlite3.SQLITE_OK

        driver.set_authorizer(guard)

    # -- callers -------------------------------------------------------------------------------------------------

    async def run(
        self, function: Callable[[Transaction, *Ts], R], *arguments: *Ts, as_user: str | None = None
    ) -> R:
        waiting = _Waiting(function, arguments, as_user)
        waiting.loop = asyncio.get_running_loop()
        waiting.future = waiting.loop.create_future()
        self._submit(waiting)
        answer: R = await waiting.future
        return answer

    def run_blocking(self, function: Callable[[Transaction, *Ts], R], *arguments: *Ts) -> R:
        waiting = _Waiting(function, arguments, None)
        waiting.future = Future()
        self._submit(waiting)
        answer: R = waiting.future.result()
        return answer

    async def read(
        self, function: Callable[[Transaction, *Ts], R], *arguments: *Ts, as_user: str | None = None
    ) -> R:
        if self._closed:
            raise DatabaseUnavailable("The database is closed.")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._read, function, arguments, as_user)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._queue.put(None)
        self._thread.join()
        self._readers.shutdown()
        for connection in self._reader_connections:
            connection.close()
        self._writer.close()
        self._ownership.release()

    def _submit(self, waiting: _Waiting) -> None:
        if self._closed:
            raise DatabaseUnavailable("The database is closed.")
        if self._queue.qsize() >= WAITING_LIMIT:
            raise DatabaseBusy(f"{WAITING_LIMIT} writes are waiting for the database already.")
        self._queue.put(waiting)

    # -- readers -------------------------------------------------------------------------------------------------

    def _read(self, function: Callable[..., R], arguments: tuple[Any, ...], user: str | None) -> R:
        connection: _Connection | None = getattr(self._reading, "connection", None)
        if connection is None:
            connection = self._reading.connection = _Connection(self.path, self._clock, writable=False)
            self._reader_connections.append(connection)
        try:
            connection.driver.execute("BEGIN")
            try:
                return function(connection.transaction(user), *arguments)
            finally:
                connection.driver.execute("ROLLBACK")
        except Exception as error:
            raise translate(error) from error

    # -- the writer thread ---------------------------------------------------------------------------------------

    def _write_forever(self) -> None:
        version = self._outside_version()
        while True:
            try:
                waiting = self._queue.get(timeout=OUTSIDE_WRITES_SECONDS)
            except queue.Empty:
                if (seen := self._outside_version()) != version:
                    version = seen
                    self.signals.deliver("jobs")
                continue
            if waiting is None:
                return
            group = self._run_group(waiting)
            if group and group[-1] is None:
                self._tell([one for one in group if one is not None])
                return
            self._tell([one for one in group if one is not None])

    def _outside_version(self) -> int:
        version: int = self._writer.driver.execute("PRAGMA data_version").fetchone()[0]
        return version

    def _run_group(self, first: _Waiting) -> list[_Waiting | None]:
        """Run all that waits in one transaction; a None at the end says that the database is closing."""
        group: list[_Waiting | None] = []
        lost: BaseException | None = None
        try:
            self._control("BEGIN IMMEDIATE")
            waiting: _Waiting | None = first
            while True:
                group.append(waiting)
                if waiting is None:
                    break
                self._run_in_savepoint(waiting)
                if not self._writer.driver.in_transaction:
                    raise sqlite3.OperationalError("the transaction was rolled back by SQLite")
                if len(group) >= GROUP_LIMIT:
                    break
                try:
                    waiting = self._queue.get_nowait()
                except queue.Empty:
                    break
            self._control("COMMIT")
        except sqlite3.Error as error:
            lost = error
            self._roll_back()
        if not group:
            group.append(first)
        members = [one for one in group if one is not None]
        if lost is not None:
            for one in members:
                self._run_alone(one)
        else:
            for one in members:
                if one.error is None and one.transaction is not None:
                    one.transaction.committed()
        return group

    def _run_in_savepoint(self, waiting: _Waiting) -> None:
        self._control("SAVEPOINT one")
        self._call(waiting)
        if not self._writer.driver.in_transaction:
            return
        if waiting.error is not None:
            self._control("ROLLBACK TO one")
        self._control("RELEASE one")

    def _run_alone(self, waiting: _Waiting) -> None:
        """Run one function in a transaction of its own, after the shared one was lost."""
        try:
            self._control("BEGIN IMMEDIATE")
            self._call(waiting)
            if waiting.error is None:
                self._control("COMMIT")
                if waiting.transaction is not None:
                    waiting.transaction.committed()
            else:
                self._roll_back()
        except sqlite3.Error as error:
            waiting.error = translate(error)
            self._roll_back()

    def _call(self, waiting: _Waiting) -> None:
        waiting.error = None
        transaction = waiting.transaction = self._writer.transaction(waiting.user)
        self._inside_function = True
        try:
            waiting.result = waiting.function(transaction, *waiting.arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, its caller hears it
            waiting.error = translate(error)
        finally:
            self._inside_function = False

    def _control(self, statement: str) -> None:
        self._writer.driver.execute(f"{statement} {OURS}")

    def _roll_back(self) -> None:
        if self._writer.driver.in_transaction:
            self._control("ROLLBACK")

    @staticmethod
    def _tell(group: list[_Waiting]) -> None:
        """Wake each event loop once for all its callers."""
        loops: dict[asyncio.AbstractEventLoop, list[_Waiting]] = {}
        for waiting in group:
            if waiting.loop is None:
                waiting.tell()
            else:
                loops.setdefault(waiting.loop, []).append(waiting)
        for loop, members in loops.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_tell_all, members)


def _tell_all(group: list[_Waiting]) -> None:
    for waiting in group:
        waiting.tell()
