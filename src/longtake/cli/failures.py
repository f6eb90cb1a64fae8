"""How commands end: exit codes, and errors as a sentence with what to do next instead of a traceback."""

import os
import sys
import traceback
from typing import NoReturn

from longtake import errors
from longtake.redaction import redact_text

OK = 0
REFUSED = 1
BAD_USAGE = 2
UNREACHABLE = 3
SCHEMA_MISMATCH = 4
INTERRUPTED = 130
PIPE_CLOSED = 141

EXIT_CODES = {
    OK: "done",
    REFUSED: "refused: no such job, lane or schedule, or not in a state that allows it",
    BAD_USAGE: "wrong option, argument or setting",
    UNREACHABLE: "the database or the server cannot be reached, or another process has the file",
    SCHEMA_MISMATCH: "the database's tables are older or newer than this program",
    INTERRUPTED: "interrupted by Ctrl-C, or by SIGTERM or a closed terminal while it used this machine's own server",
    PIPE_CLOSED: "whoever read the output has stopped reading",
}

#: The nearest class in an error's family tree counts.
CODE_OF_ERROR: dict[type[errors.LongtakeError], int] = {
    errors.SettingsError: BAD_USAGE,
    errors.OperatorError: BAD_USAGE,
    errors.InvalidApplication: BAD_USAGE,
    errors.InvalidDefinition: BAD_USAGE,
    errors.CannotListen: BAD_USAGE,
    errors.AuthenticationRequired: BAD_USAGE,
    errors.VaultError: BAD_USAGE,
    errors.DatabaseError: UNREACHABLE,
    errors.DatabaseRefused: BAD_USAGE,
    errors.RoleTooPowerful: BAD_USAGE,
    errors.StorageUnavailable: UNREACHABLE,
    errors.StorageRefused: BAD_USAGE,
    errors.ServerUnreachable: UNREACHABLE,
    errors.SchemaMismatch: SCHEMA_MISMATCH,
    errors.LongtakeError: REFUSED,
}


def exit_code(error: errors.LongtakeError) -> int:
    """Return the exit code that tells a script what kind of failure it was."""
    return next(CODE_OF_ERROR[kind] for kind in type(error).__mro__ if kind in CODE_OF_ERROR)


def print_error(message: str, code: str, hint: str = "") -> None:
    """Say what went wrong and what to do next, where errors are said."""
    lines = f"{message} [{code}]".splitlines()
    print("\n".join(["longtake: " + lines[0], *("  " + line for line in lines[1:])]), file=sys.stderr)  # noqa: T201
    for line in hint.splitlines():
        print(f"  {line}", file=sys.stderr)  # noqa: T201


def end_with(error: errors.LongtakeError) -> NoReturn:
    """End the command because of one of Longtake's own errors."""
    print_error(error.message, error.code, error.hint)
    sys.exit(exit_code(error))


def end_unexpectedly(error: Exception) -> NoReturn:
    """End because of a bug; its traceback is for those who ask for it."""
    if os.environ.get("LONGTAKE_LOG_LEVEL", "").lower() == "debug":
        print(redact_text("".join(traceback.format_exception(error))), file=sys.stderr)  # noqa: T201
    print_error(
        redact_text(f"An error nobody foresaw: {type(error).__name__}: {error}"),
        "UNEXPECTED",
        "Please report it, with what LONGTAKE_LOG_LEVEL=debug shows in addition.",
    )
    sys.exit(REFUSED)


def end_quietly_on_closed_pipe() -> NoReturn:
    """End without a word: the reader has gone. What is still buffered must not complain at exit either."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    sys.exit(PIPE_CLOSED)
