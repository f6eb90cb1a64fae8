"""What PostgreSQL's errors mean to a caller."""

from __future__ import annotations

import re

import psycopg
import psycopg.errors
import sqlalchemy.exc

from longtake.errors import (
    DatabaseBusy,
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseRefused,
    DatabaseUnavailable,
    LongtakeError,
    RightsMissing,
    SchemaMismatch,
)

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
    (psycopg.errors.LockNotAvailable, DatabaseBusy, "A lock was not had in time."),
    (psycopg.errors.QueryCanceled, DatabaseBusy, "A statement took longer than allowed."),
    (psycopg.errors.TooManyConnections, DatabaseBusy, "PostgreSQL has no connection left for us."),
    (psycopg.errors.InsufficientPrivilege, RightsMissing, "The database role may not do this."),
    (psycopg.errors.UndefinedTable, SchemaMismatch, "A table is missing."),
    (psycopg.errors.SerializationFailure, DatabaseBusy, "The transaction lost against others again and again."),
    (psycopg.errors.DeadlockDetected, DatabaseBusy, "The transaction ran into deadlocks again and again."),
]

MAKING = (
    "`LONGTAKE_ADMIN_URL=postgresql://postgres:PASSWORD@HOST/postgres longtake migrate up` makes the role and the"
    " database that LONGTAKE_DATABASE_URL names."
)
#: Where passwords are asked for, the server does not say whether there is such a role.
NOT_BELIEVED = (
    f"Is the password right? If there is no such role yet: {MAKING} `longtake migrate up --admin-url …` does the same."
)
#: While a connection is made the driver hands on the server's words alone, without a SQLSTATE. Each with a hint.
NOT_LET_IN = [
    (re.compile(r'role "(.+?)" does not exist'), "The role {!r} does not exist.", MAKING),
    (re.compile(r'database "(.+?)" does not exist'), "The database {!r} does not exist.", MAKING),
    (re.compile(r'authentication failed for user "(.+?)"'), "It does not believe that we are {!r}.", NOT_BELIEVED),
    (re.compile(r'no pg_hba.conf entry for host .*?user "(.+?)"'), "From here it takes no connection of {!r}.", None),
]


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
