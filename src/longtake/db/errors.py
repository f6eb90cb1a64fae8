"""Errors of databases."""

from longtake.errors import LongtakeError


class DatabaseError(LongtakeError):
    """The database refused a request, or could not be asked."""

    code = "DATABASE_ERROR"
    http_status = 503
    exit_code = 3


class DatabaseUnavailable(DatabaseError):
    """The database cannot be reached now. Nothing was written, so you can try again."""

    code = "DATABASE_UNAVAILABLE"
    default_hint = "Check that the database runs and can be reached. Work then continues automatically."


class DatabaseBusy(DatabaseUnavailable):
    """Too many calls are waiting for the database, or another transaction holds its lock."""

    code = "DATABASE_BUSY"
    default_hint = "Try again in a few seconds. If this continues, look for a long transaction in another program."


class DatabaseFull(DatabaseUnavailable):
    """The database has no room left. Nothing was written."""

    code = "DATABASE_FULL"
    default_hint = "Free space on the disk that holds the database. You do not need to restart anything."


class DatabaseRefused(DatabaseUnavailable):
    """The database server refuses the login: no such role or database, or a wrong password."""

    code = "DATABASE_REFUSED"
    exit_code = 2
    default_hint = "Check the role, its password and the name of the database in LONGTAKE_DATABASE_URL."


class DatabaseReadOnly(DatabaseError):
    """The database accepts no writes: it is a standby, or a file without write permission."""

    code = "DATABASE_READ_ONLY"
    default_hint = "Point LONGTAKE_DATABASE_URL at the primary server, or make the file writable."


class DatabaseOwned(DatabaseError):
    """Another process owns the SQLite file."""

    code = "DATABASE_OWNED"
    default_hint = "Stop that process first, or use PostgreSQL to run several processes."


class SchemaMismatch(DatabaseError):
    """The tables do not match this version of Longtake."""

    code = "SCHEMA_MISMATCH"
    exit_code = 4
    default_hint = "Run `longtake migrate up`."


class RightsMissing(DatabaseError):
    """The database role lacks a permission that this needs."""

    code = "RIGHTS_MISSING"
    http_status = 500


class RoleTooPowerful(DatabaseError):
    """Row level security does not apply to the database role, so it would not keep users' rows apart."""

    code = "ROLE_TOO_POWERFUL"
    http_status = 500
    exit_code = 2
    default_hint = (
        "Name a plain role in LONGTAKE_DATABASE_URL: `longtake migrate up --admin-url …` makes one."
        " LONGTAKE_ALLOW_SUPERUSER=true starts with this role anyway."
    )


class TransactionEnded(DatabaseError):
    """A transaction function committed or rolled back; only Database.run may do that."""

    code = "TRANSACTION_ENDED"
    http_status = 500
    default_hint = "Remove BEGIN, COMMIT, ROLLBACK and SAVEPOINT from the function; raise an exception to roll back."
