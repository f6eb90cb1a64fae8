"""Taking the SQLite file for one command, before loading more: if a server owns it, nothing else is needed."""

from longtake.db.ownership import FileOwnership
from longtake.db.urls import is_sqlite, sqlite_path
from longtake.errors import DatabaseUnavailable

#: Who has a SQLite file only for a moment: others wait for it instead of giving up.
COMMAND = "a longtake command"
MIGRATION = "longtake migrate"
PATIENCE_SECONDS = 5.0
PAUSE_SECONDS = 0.05
CANNOT_USE_HINT = "Check LONGTAKE_DATABASE_URL, and that this user may read and write there."


def take_for_command(url: str) -> FileOwnership | None:
    """Return the ownership of the SQLite file; None for PostgreSQL, which commands share with servers.

    Raises DatabaseOwned when another process has the file.
    """
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
