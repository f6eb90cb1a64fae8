"""Who owns a SQLite file: a lock on a file beside it, so that two Longtake processes never share one database."""

import fcntl
import os
from pathlib import Path

from longtake.db import is_sqlite, sqlite_path
from longtake.db.errors import DatabaseOwned, DatabaseUnavailable

#: Who has a SQLite file only for a moment: others wait for it instead of giving up.
COMMAND = "a longtake command"
MIGRATION = "longtake migrate"
PATIENCE_SECONDS = 5.0
PAUSE_SECONDS = 0.05
CANNOT_USE_HINT = "Check LONGTAKE_DATABASE_URL, and that this user may read and write there."


class FileOwnership:
    """Held from opening to release; the system gives it back when the process dies, however it dies."""

    def __init__(self, database: Path, owner: str) -> None:
        path = lock_path(database)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 200, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise DatabaseOwned(f"{database} is in use by {holder or 'another process'}.") from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{owner} (process {os.getpid()})\n".encode(), 0)

    def release(self) -> None:
        """Let the next process have the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def lock_path(database: Path) -> Path:
    """Return where the lock lies."""
    return database.with_name(database.name + ".lock")


def take_for_command(url: str) -> FileOwnership | None:
    """Return the ownership of the SQLite file, if no other process has it; None for PostgreSQL, which is shared."""
    if not is_sqlite(url):
        return None
    path = sqlite_path(url)
    if not path.exists():
        raise DatabaseUnavailable(
            f"There is no database at {path}.",
            hint="`longtake serve` or `longtake migrate up` makes one; LONGTAKE_DATABASE_URL says where.",
        )
    try:
        return FileOwnership(path, COMMAND)
    except OSError as error:
        reason = error.strerror or error
        raise DatabaseUnavailable(f"{path} cannot be opened: {reason}.", hint=CANNOT_USE_HINT) from error
