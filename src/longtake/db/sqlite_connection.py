"""A SQLite connection whose ``longtake_now()`` is when the running function began, and what its errors mean."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

import sqlalchemy
import sqlalchemy.exc
from sqlalchemy.pool import StaticPool

from longtake.clock import Clock
from longtake.db.database import Signals, Transaction
from longtake.db.dialects import instant_to_text, text_to_instant
from longtake.db.errors import (
    DatabaseBusy,
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseUnavailable,
    SchemaMismatch,
    TransactionEnded,
)
from longtake.errors import LongtakeError

BUSY_SECONDS = 10.0
#: How long closing waits for other programs that read the log.
LOG_READERS_SECONDS = 1.0
SHARED_PRAGMAS = ("foreign_keys = ON", "temp_store = MEMORY", "cache_size = -16000")
WRITER_PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", "journal_size_limit = 67108864")
#: Marks our own transaction statements, so that none of them is ever taken from the cache for a function's.
OURS = "/* longtake */"

#: The low byte of SQLite's result code; the rest only says where in SQLite it happened.
PRIMARY_CODE = 0xFF

MEANINGS: dict[int, tuple[type[LongtakeError], str]] = {
    sqlite3.SQLITE_BUSY: (DatabaseBusy, "Another program holds the SQLite file's write lock."),
    sqlite3.SQLITE_LOCKED: (DatabaseBusy, "Another connection holds a lock on the SQLite file."),
    sqlite3.SQLITE_FULL: (DatabaseFull, "There is no room left for the SQLite file; nothing was written."),
    sqlite3.SQLITE_READONLY: (DatabaseReadOnly, "The SQLite file cannot be written."),
    sqlite3.SQLITE_IOERR: (DatabaseUnavailable, "Reading or writing the SQLite file failed."),
    sqlite3.SQLITE_CANTOPEN: (DatabaseUnavailable, "The SQLite file cannot be opened."),
    sqlite3.SQLITE_AUTH: (TransactionEnded, "A transaction function tried to begin, commit or roll back by itself."),
}


class SqliteConnection:
    """For one thread at a time. Transactions begin and end only by :meth:`control`."""

    def __init__(self, path: Path, clock: Clock, signals: Signals, *, writable: bool) -> None:
        self._signals = signals
        self._clock = clock
        self._set_now(clock.now())
        self._inside_function = False
        # isolation_level=None: no transaction begins unless we say so.
        self.driver = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={'rwc' if writable else 'ro'}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
        self.driver.create_function("longtake_now", 0, lambda: self._now_text, deterministic=True)
        self.driver.create_function("later", 1, self._later, deterministic=True)
        self.driver.create_function("seconds_until", 1, self._seconds_until)
        for pragma in (*SHARED_PRAGMAS, *(WRITER_PRAGMAS if writable else ())):
            self.driver.execute(f"PRAGMA {pragma}")
        self.driver.set_authorizer(self._authorize)
        engine = sqlalchemy.create_engine(
            "sqlite://", creator=lambda: self.driver, poolclass=StaticPool, isolation_level="AUTOCOMMIT"
        )
        # Core's own transaction is begun once and never ended.
        self._core = engine.connect()
        # One for all transactions. A cursor resets its last statement when it goes, on the thread that had the
        # transaction last; Python hands the same statement to the next cursor, which is then in the middle of it.
        self._cursor = self.driver.cursor()

    def transaction(self, user: str | None) -> Transaction:
        """Begin the time of one function."""
        self._set_now(self._clock.now())
        return Transaction(self._core, self._cursor, self._signals, user)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Refuse transaction statements: one function's COMMIT would commit half of another's work."""
        self._inside_function = True
        try:
            yield
        finally:
            self._inside_function = False

    def control(self, statement: str) -> None:
        """Begin, commit, roll back, set a savepoint."""
        self.driver.execute(f"{statement} {OURS}")

    def roll_back(self) -> None:
        if self.driver.in_transaction:
            self.control("ROLLBACK")

    def outside_version(self) -> int:
        """Return a number that changes when another program has written to the file."""
        version: int = self.driver.execute("PRAGMA data_version").fetchone()[0]
        return version

    def empty_log(self) -> None:
        """Write the whole log (`-wal`) to the file and empty it, as far as other readers allow."""
        with suppress(sqlite3.Error):
            self.driver.execute(f"PRAGMA busy_timeout = {LOG_READERS_SECONDS * 1000:.0f}")
            self.driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        # SQLite keeps a connection with an unfinished statement open, and its file with it.
        self._cursor.close()
        self._core.detach()
        self.driver.close()

    def _set_now(self, now: datetime) -> None:
        self._now, self._now_text = now, instant_to_text(now)

    def _later(self, seconds: float | None) -> str | None:
        if seconds is None:
            return None
        # Most jobs are due at once.
        return self._now_text if seconds == 0 else instant_to_text(self._now + timedelta(seconds=seconds))

    def _seconds_until(self, moment: str | None) -> float | None:
        return None if moment is None else (text_to_instant(moment) - self._now).total_seconds()

    def _authorize(self, action: int, *_details: str | None) -> int:
        ends = action in {sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT}
        return sqlite3.SQLITE_DENY if ends and self._inside_function else sqlite3.SQLITE_OK


def translate(error: BaseException) -> BaseException:
    """Return our own error where SQLite's has a meaning for callers, and the error itself where it has not."""
    original = error.orig if isinstance(error, sqlalchemy.exc.DBAPIError) else error
    if not isinstance(original, sqlite3.Error):
        return error
    code = getattr(original, "sqlite_errorcode", None)
    if code is not None and (code & PRIMARY_CODE) in MEANINGS:
        kind, sentence = MEANINGS[code & PRIMARY_CODE]
        return kind(f"{sentence} (SQLite: {original})")
    if "no such table" in str(original):
        return SchemaMismatch(f"A table is missing. (SQLite: {original})")
    return error
