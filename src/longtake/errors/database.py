"""What can be wrong with the database."""

from longtake.errors.base import LongtakeError


class DatabaseError(LongtakeError):
    """The database refused, or could not be asked."""

    code = "DATABASE_ERROR"


class DatabaseUnavailable(DatabaseError):
    """The database cannot be reached now. Nothing was written; trying again is right."""

    code = "DATABASE_UNAVAILABLE"
    default_hint = "Check that the database runs and can be reached; work goes on by itself once it can."


class DatabaseBusy(DatabaseUnavailable):
    """More is waiting for the database than it can take, or another transaction holds its lock."""

    code = "DATABASE_BUSY"
    default_hint = "Try again in a few seconds. If it stays so, look for a long transaction in another program."


class DatabaseFull(DatabaseUnavailable):
    """There is no room left. Nothing was written."""

    code = "DATABASE_FULL"
    default_hint = "Make room on the disk that holds the database; nothing needs to be restarted."


class DatabaseRefused(DatabaseUnavailable):
    """The database server answers, and does not let us in: no such role or database, or a wrong password."""

    code = "DATABASE_REFUSED"
    default_hint = "Check the role, its password and the name of the database in LONGTAKE_DATABASE_URL."


class DatabaseReadOnly(DatabaseError):
    """The database takes no writes: a standby, or a file without write permission."""

    code = "DATABASE_READ_ONLY"
    default_hint = "Point LONGTAKE_DATABASE_URL at the primary server, or make the file writable."


class DatabaseOwned(DatabaseError):
    """Another process owns the SQLite file."""

    code = "DATABASE_OWNED"
    default_hint = "Stop that process first, or use PostgreSQL to run several."


class SchemaMismatch(DatabaseError):
    """The tables are not those this version of Longtake was written for."""

    code = "SCHEMA_MISMATCH"
    default_hint = "Run `longtake migrate up`."


class RightsMissing(DatabaseError):
    """The database role is not allowed to do what was asked."""

    code = "RIGHTS_MISSING"


class RoleTooPowerful(DatabaseError):
    """Row level security does not bind the database role: users' rows would not be kept apart."""

    code = "ROLE_TOO_POWERFUL"
    default_hint = (
        "Name a plain role in LONGTAKE_DATABASE_URL: `longtake migrate up --admin-url …` makes one."
        " LONGTAKE_ALLOW_SUPERUSER=true starts all the same."
    )


class TransactionEnded(DatabaseError):
    """A transaction function committed or rolled back by itself; only Database.run may do that."""

    code = "TRANSACTION_ENDED"
    default_hint = "Remove BEGIN, COMMIT, ROLLBACK and SAVEPOINT from the function; raise an exception to roll back."
