"""Every error Longtake raises on purpose.

Each has a stable ``code``, a sentence that names what was wrong, and a ``hint`` that says what to do next::

    LongtakeError
    ├── SettingsError                 SETTINGS_INVALID
    ├── DatabaseError
    │   ├── DatabaseUnavailable       DATABASE_UNAVAILABLE     cannot be reached now; trying again is right
    │   │   ├── DatabaseBusy          DATABASE_BUSY            too much is waiting, or somebody holds the lock
    │   │   └── DatabaseFull          DATABASE_FULL            no room on the disk
    │   ├── DatabaseReadOnly          DATABASE_READ_ONLY       a standby, or a file without write permission
    │   ├── DatabaseOwned             DATABASE_OWNED           another process owns the SQLite file
    │   ├── SchemaMismatch            SCHEMA_MISMATCH          migrations are missing, or newer than this program
    │   ├── RightsMissing             RIGHTS_MISSING           the database role may not do this
    │   └── TransactionEnded          TRANSACTION_ENDED        a function committed or rolled back by itself
    ├── OperatorError
    │   ├── UnknownAction             ACTION_UNKNOWN           there is no operator action of this name
    │   └── InvalidActionArgument     ACTION_ARGUMENT_INVALID  an argument of an operator action is wrong
    ├── ServerError
    │   ├── ServerUnreachable         SERVER_UNREACHABLE       no server answers where one should
    │   ├── CannotListen              LISTEN_FAILED            the address or port cannot be had
    │   └── ProcessFailed             PROCESS_FAILED           a part of the process ended by itself
    ├── InvalidApplication            APP_INVALID              --app names something that cannot be used
    └── EngineError
        ├── InvalidJob                JOB_INVALID              refused at enqueue
        │   ├── UnknownKind           KIND_UNKNOWN
        │   ├── UnknownLane           LANE_UNKNOWN
        │   ├── InvalidArguments      ARGUMENTS_INVALID
        │   ├── InvalidDelay          DELAY_INVALID
        │   ├── InvalidKey            KEY_INVALID
        │   └── InvalidPriority       PRIORITY_INVALID
        ├── InvalidDefinition         DEFINITION_INVALID       a kind, lane or schedule is declared wrongly
        ├── NotFound                  NOT_FOUND
        ├── StateConflict             STATE_CONFLICT           the job is not in a state that allows this
        └── LeaseLost                 LEASE_LOST               the job is no longer ours
"""

from typing import Any


class LongtakeError(Exception):
    """The root: a code for programs, a sentence for people, and what to do next."""

    code = "LONGTAKE_ERROR"
    default_hint = ""

    def __init__(self, message: str, hint: str | None = None, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = self.default_hint if hint is None else hint
        #: What a program may want to know besides the sentence: a balance, a price, a limit.
        self.facts = facts


class SettingsError(LongtakeError):
    """A setting has a value that cannot be used."""

    code = "SETTINGS_INVALID"
    default_hint = "`longtake settings` lists every setting with its meaning and where its value came from."


class DatabaseError(LongtakeError):
    """The database refused, or could not be asked."""

    code = "DATABASE_ERROR"


class DatabaseUnavailable(DatabaseError):
    """The database cannot be reached now. Nothing was written; trying again is right."""

    code = "DATABASE_UNAVAILABLE"
    default_hint = "Check that the database runs and can be reached; work goes on by itself once it can."


class DatabaseBusy(DatabaseUnavailable):
    """More is waiting for the database than it can take, or somebody holds its lock."""

    code = "DATABASE_BUSY"
    default_hint = "Try again in a few seconds. If it stays so, look for a long transaction in another program."


class DatabaseFull(DatabaseUnavailable):
    """There is no room left. Nothing was written."""

    code = "DATABASE_FULL"
    default_hint = "Make room on the disk that holds the database; nothing needs to be restarted."


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


class TransactionEnded(DatabaseError):
    """A transaction function committed or rolled back by itself; only Database.run may do that."""

    code = "TRANSACTION_ENDED"
    default_hint = "Remove BEGIN, COMMIT, ROLLBACK and SAVEPOINT from the function; raise an exception to roll back."


class OperatorError(LongtakeError):
    """What an operator asked for was not understood. Nothing was done."""

    code = "OPERATOR_ERROR"


class UnknownAction(OperatorError):
    """There is no operator action of this name."""

    code = "ACTION_UNKNOWN"


class InvalidActionArgument(OperatorError):
    """An argument of an operator action is missing, misspelt or wrong."""

    code = "ACTION_ARGUMENT_INVALID"


class ServerError(LongtakeError):
    """The server could not be started, or could not be asked."""

    code = "SERVER_ERROR"


class ServerUnreachable(ServerError):
    """No server answers where one should."""

    code = "SERVER_UNREACHABLE"
    default_hint = "Look at the server's log; `longtake serve` starts one."


class CannotListen(ServerError):
    """The address or port cannot be had."""

    code = "LISTEN_FAILED"
    default_hint = "Choose another with --host and --port, or stop the program that has it."


class ProcessFailed(ServerError):
    """A part of the process, such as its worker, ended by itself. Its jobs are rescued by the next worker."""

    code = "PROCESS_FAILED"
    default_hint = "This should not happen: the log has the details. Start the process again; no job is lost."


class InvalidApplication(LongtakeError):
    """What --app names cannot be loaded, or declares something that cannot work."""

    code = "APP_INVALID"
    default_hint = "Example: --app shop.jobs:register, where register(application) calls application.add(kinds=[…])."


class EngineError(LongtakeError):
    """Something asked of the engine cannot be done."""

    code = "ENGINE_ERROR"


class InvalidJob(EngineError):
    """A job was refused at enqueue. Nothing was written."""

    code = "JOB_INVALID"


class UnknownKind(InvalidJob):
    """No handler of this name was ever declared in this database."""

    code = "KIND_UNKNOWN"


class UnknownLane(InvalidJob):
    """No lane of this name exists."""

    code = "LANE_UNKNOWN"
    default_hint = "`longtake lanes list` shows the lanes there are; `longtake lanes set NAME` makes one."


class InvalidArguments(InvalidJob):
    """The arguments are not JSON, or too large."""

    code = "ARGUMENTS_INVALID"
    default_hint = "Pass ids of rows or keys of objects instead of the data itself."


class InvalidDelay(InvalidJob):
    """The delay is negative, or not a number."""

    code = "DELAY_INVALID"


class InvalidKey(InvalidJob):
    """The key is empty or too long."""

    code = "KEY_INVALID"


class InvalidPriority(InvalidJob):
    """The priority is not one of the known ones."""

    code = "PRIORITY_INVALID"


class InvalidDefinition(EngineError):
    """A kind, lane or schedule was declared in a way that cannot work."""

    code = "DEFINITION_INVALID"


class NotFound(EngineError):
    """There is no such job, lane or schedule."""

    code = "NOT_FOUND"


class StateConflict(EngineError):
    """The job is not in a state that allows this."""

    code = "STATE_CONFLICT"


class LeaseLost(EngineError):
    """The job is no longer ours: it was cancelled, or rescued from a worker that seemed dead."""

    code = "LEASE_LOST"
    default_hint = "Stop working on this job: whatever it would write is refused."
