"""What SQLite's errors mean to a caller."""

from __future__ import annotations

import sqlite3

import sqlalchemy.exc

from longtake.errors import (
    DatabaseBusy,
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseUnavailable,
    LongtakeError,
    SchemaMismatch,
    TransactionEnded,
)

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
