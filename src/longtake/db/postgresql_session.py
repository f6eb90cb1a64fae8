"""One PostgreSQL connection, its transactions, and what its errors mean to a caller."""

import re
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import orjson
import psycopg
import psycopg.errors
import psycopg.sql
import sqlalchemy
import sqlalchemy.exc
from psycopg.pq import TransactionStatus
from psycopg.types.json import set_json_dumps, set_json_loads
from psycopg.types.string import TextLoader
from sqlalchemy import Connection, Engine
from sqlalchemy.pool import NullPool

from longtake.db.database import Call, Signals, Transaction
from longtake.db.errors import (
    DatabaseBusy,
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseRefused,
    DatabaseUnavailable,
    RightsMissing,
    SchemaMismatch,
    TransactionEnded,
)
from longtake.errors import LongtakeError

R = TypeVar("R")

#: The role under which a user's own requests run: row level security holds for it without exception.
API_ROLE = "longtake_api"
#: Changes with every start of the server, also after a crash under the same postmaster, which resets statistics.
SERVER_LIFE = "SELECT concat_ws(' ', pg_postmaster_start_time(), (SELECT stats_reset FROM pg_stat_bgwriter))"

REPEATABLE = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
#: The server ends these connections itself: restart, failover, an operator.
ENDED_BY_SERVER = (
    psycopg.errors.AdminShutdown,
    psycopg.errors.CrashShutdown,
    psycopg.errors.CannotConnectNow,
    psycopg.errors.IdleInTransactionSessionTimeout,
)

MEANINGS: list[tuple[type[Exception], type[LongtakeError], str]] = [
    (psycopg.errors.DiskFull, DatabaseFull, "PostgreSQL has no room left on its disk; nothing was written."),
    (psycopg.errors.ReadOnlySqlTransaction, DatabaseReadOnly, "This PostgreSQL server takes no writes."),
    (psycopg.errors.LockNotAvailable, DatabaseBusy, "The transaction did not get a lock in time."),
    (psycopg.errors.QueryCanceled, DatabaseBusy, "A statement took longer than allowed."),
    (psycopg.errors.TooManyConnections, DatabaseBusy, "PostgreSQL has no free connection."),
    (psycopg.errors.InsufficientPrivilege, RightsMissing, "The database role may not do this."),
    (psycopg.errors.UndefinedTable, SchemaMismatch, "A table is missing."),
    (psycopg.errors.SerializationFailure, DatabaseBusy, "The transaction conflicted with others in every try."),
    (psycopg.errors.DeadlockDetected, DatabaseBusy, "The transaction ran into a deadlock in every try."),
]

MAKE_ROLE = (
    "`LONGTAKE_ADMIN_URL=postgresql://postgres:PASSWORD@HOST/postgres longtake migrate up` makes the role and the"
    " database that LONGTAKE_DATABASE_URL names."
)
#: Where passwords are asked for, the server does not say whether there is such a role.
PASSWORD_REFUSED = (
    f"Is the password right? If there is no such role yet: {MAKE_ROLE}"
    " `longtake migrate up --admin-url …` does the same."
)
#: While a connection is made the driver hands on the server's words alone, without a SQLSTATE. Each with a hint.
NOT_LET_IN = [
    (re.compile(r'role "(.+?)" does not exist'), "The role {!r} does not exist.", MAKE_ROLE),
    (re.compile(r'database "(.+?)" does not exist'), "The database {!r} does not exist.", MAKE_ROLE),
    (re.compile(r'authentication failed for user "(.+?)"'), "It refused the password of {!r}.", PASSWORD_REFUSED),
    (re.compile(r'no pg_hba.conf entry for host .*?user "(.+?)"'), "It accepts no connection of {!r} from here.", None),
]


@dataclass(frozen=True)
class SessionOptions:
    """How to connect, and how long anything may take."""

    url: str
    connect_seconds: int = 5
    statement_seconds: float = 30.0
    lock_seconds: float = 10.0
    #: A process that is frozen inside a transaction holds its locks no longer than this: less than a lease.
    idle_seconds: float = 10.0

    def connect(self, *, statement_limit: bool = True) -> psycopg.Connection[Any]:
        """Open a connection that never waits for ever."""
        limits = {
            "statement_timeout": int(self.statement_seconds * 1000) if statement_limit else 0,
            "lock_timeout": int(self.lock_seconds * 1000),
            "idle_in_transaction_session_timeout": int(self.idle_seconds * 1000),
            # A claim prepared while the queue is empty would keep a plan that is ruinous when it is full.
            "plan_cache_mode": "force_custom_plan",
            "timezone": "UTC",
            "application_name": "longtake",
        }
        connection: psycopg.Connection[Any] = psycopg.connect(
            self.url,
            autocommit=True,
            connect_timeout=self.connect_seconds,
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
            tcp_user_timeout=int(self.statement_seconds * 1000),
            options=" ".join(f"-c {name}={value}" for name, value in limits.items()),
        )
        # An id is text in Python, on both databases.
        connection.adapters.register_loader("uuid", TextLoader)
        set_json_loads(orjson.loads, connection)
        set_json_dumps(orjson.dumps, connection)
        return connection

    def engine(self) -> Engine:
        """Return what compiles Core statements; connections, BEGIN and COMMIT stay ours."""
        return sqlalchemy.create_engine(
            "postgresql+psycopg://",
            creator=self.connect,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            use_native_hstore=False,
        )


@dataclass(eq=False)
class CommitUnknown(Exception):
    """The connection was lost while COMMIT was under way."""

    transaction_id: str
    server_life: str
    transaction: Transaction
    result: Any
    cause: Exception


class Session:
    """Used by one thread at a time; connects when needed and again after a loss."""

    def __init__(self, engine: Engine, signals: Signals) -> None:
        self._engine = engine
        self._signals = signals
        self._core: Connection | None = None
        self._driver: psycopg.Connection[Any] | None = None
        self._server_life = ""

    def transact(self, call: Call[R]) -> R:
        """Call the function in one transaction; after an error nothing of it stays."""
        driver, core = self._connected()
        try:
            with driver.cursor() as cursor:
                transaction_id = self._begin(cursor, call)
                transaction = Transaction(core, cursor, self._signals, call.user)
                result = call.within(transaction)
                if driver.info.transaction_status != TransactionStatus.INTRANS:
                    raise TransactionEnded("A transaction function ended its transaction by itself.")
                try:
                    cursor.execute("COMMIT", prepare=False)
                except psycopg.OperationalError as error:
                    # A server that is being stopped may say so instead of the answer, which may have been yes.
                    if not call.read_only and (driver.broken or is_lost(error)):
                        raise CommitUnknown(transaction_id, self._server_life, transaction, result, error) from error
                    raise
        except BaseException:
            self._abandon()
            raise
        transaction.committed()
        return result

    def transaction_status(self, transaction_id: str, server_life: str) -> str:
        """Say what became of a transaction: committed, aborted, in progress or unknown.

        A server that crashed gives the numbers of transactions it had not written down to others, so that after a
        crash another transaction's commit cannot be told from ours.
        """
        driver, _core = self._connected()
        try:
            row = driver.execute("SELECT pg_xact_status(%s::xid8)", (transaction_id,)).fetchone()
        except psycopg.errors.InvalidParameterValue:
            # "In the future": the server has lost it.
            return "aborted"
        except psycopg.Error:
            self._abandon()
            raise
        # NULL: too old to be remembered, which cannot be one whose answer we are waiting for.
        status = str(row[0]) if row and row[0] else "aborted"
        return "unknown" if status == "committed" and server_life != self._server_life else status

    def close(self) -> None:
        driver, core = self._driver, self._core
        self._driver = self._core = None
        # Core gives a connection up by itself when one of its own statements finds it lost.
        if core is not None and not core.invalidated:
            core.detach()
        if driver is not None:
            driver.close()

    def _connected(self) -> tuple[psycopg.Connection[Any], Connection]:
        if self._driver is None or self._core is None or self._driver.closed:
            self.close()
            # Core's own transaction is begun once and never ended.
            self._core = self._engine.connect()
            self._driver = cast("psycopg.Connection[Any]", self._core.connection.driver_connection)
            self._server_life = _first_value(self._driver.execute(SERVER_LIFE))
        return self._driver, self._core

    @staticmethod
    def _begin(cursor: psycopg.Cursor[Any], call: Call[Any]) -> str:
        """Begin, take the user's role, and learn the transaction's id, in one round trip."""
        statement = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" if call.read_only else "BEGIN"
        if getattr(call.function, "planned_once", False):
            # A plan made while a table is empty is kept when it is full: it must not read the table from end to end.
            statement += "; SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off"
        if call.user is not None:
            name = psycopg.sql.quote(call.user)
            statement += f"; SET LOCAL ROLE {API_ROLE}; SELECT set_config('longtake.user', {name}, true)"
        if call.read_only:
            cursor.execute(statement.encode())
            return ""
        # Asked at the start, so that it is known when the answer to COMMIT is lost.
        cursor.execute(f"{statement}; SELECT pg_current_xact_id()".encode())
        while cursor.nextset():
            pass
        return _first_value(cursor)

    def _abandon(self) -> None:
        """Roll back, or drop the connection when that is no longer possible."""
        driver = self._driver
        if driver is None:
            return
        try:
            if driver.info.transaction_status != TransactionStatus.IDLE:
                driver.execute("ROLLBACK")
        except psycopg.Error:
            self.close()
        else:
            if driver.closed:
                self.close()


def _first_value(cursor: psycopg.Cursor[Any]) -> str:
    row = cursor.fetchone()
    return str(row[0]) if row else ""


def original(error: BaseException) -> BaseException:
    """Return the driver's error that SQLAlchemy may have wrapped."""
    wrapped = error.orig if isinstance(error, sqlalchemy.exc.DBAPIError) else None
    return error if wrapped is None else wrapped


def is_lost(error: BaseException) -> bool:
    """Say whether the connection is gone, so that the same function may succeed on another."""
    error = original(error)
    if isinstance(error, ENDED_BY_SERVER):
        return True
    # Errors that come from the server carry a SQLSTATE; those of a dead connection do not.
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and error.sqlstate is None


def is_repeatable(error: BaseException) -> bool:
    """Say whether running the function again may succeed at once."""
    return isinstance(original(error), REPEATABLE) or is_lost(error)


def translate(error: BaseException) -> BaseException:
    """Return our own error where PostgreSQL's has a meaning for callers, and the error itself where it has not."""
    cause = original(error)
    for theirs, ours, sentence in MEANINGS:
        if isinstance(cause, theirs):
            return ours(f"{sentence} (PostgreSQL: {_first_line(cause)})")
    if is_lost(error):
        return _refused(str(cause)) or DatabaseUnavailable(f"PostgreSQL cannot be reached. ({_first_line(cause)})")
    return error


def _refused(words: str) -> DatabaseRefused | None:
    """Return what the server's words mean, where it was there and did not let us in."""
    for pattern, sentence, hint in NOT_LET_IN:
        if found := pattern.search(words):
            reason = f"PostgreSQL does not let us in. ({sentence.format(found[1])})"
            return DatabaseRefused(reason, hint=hint)
    return None


def _first_line(error: BaseException) -> str:
    """Return the driver's sentence without the query or the address that may follow it."""
    return str(error).split("\n", 1)[0].strip()
