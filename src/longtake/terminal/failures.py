"""How commands fail: exit codes, and errors as a sentence with a hint instead of a traceback."""

import os
import sys
import traceback
from typing import NoReturn

from longtake.errors import LongtakeError
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
    PIPE_CLOSED: "the program that read the output has stopped reading",
}


def print_error(message: str, code: str, hint: str = "") -> None:
    """Print what went wrong and what to do next on standard error."""
    lines = f"{message} [{code}]".splitlines()
    print("\n".join(["longtake: " + lines[0], *("  " + line for line in lines[1:])]), file=sys.stderr)  # noqa: T201
    for line in hint.splitlines():
        print(f"  {line}", file=sys.stderr)  # noqa: T201


def end_with(error: LongtakeError) -> NoReturn:
    """Print one of Longtake's own errors and exit."""
    print_error(error.message, error.code, error.hint)
    sys.exit(error.exit_code)


def end_unexpectedly(error: Exception) -> NoReturn:
    """Print an unexpected error and exit; the traceback is shown at log level debug."""
    if os.environ.get("LONGTAKE_LOG_LEVEL", "").lower() == "debug":
        print(redact_text("".join(traceback.format_exception(error))), file=sys.stderr)  # noqa: T201
    print_error(
        redact_text(f"Unexpected error: {type(error).__name__}: {error}"),
        "UNEXPECTED",
        "Please report it, with the traceback that LONGTAKE_LOG_LEVEL=debug shows.",
    )
    sys.exit(REFUSED)


def end_quietly_on_closed_pipe() -> NoReturn:
    """Exit without a message because the reader has gone; the rest of the buffer is discarded."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    sys.exit(PIPE_CLOSED)
