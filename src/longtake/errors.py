"""The root of all errors that are raised on purpose, and those that many packages raise or that belong to none."""

from typing import Any


class LongtakeError(Exception):
    """The root: a code for programs, a sentence for people, and what to do next."""

    code = "LONGTAKE_ERROR"
    #: How it is answered over HTTP, and how a command ends with it.
    http_status = 500
    exit_code = 1
    default_hint = ""

    def __init__(self, message: str, hint: str | None = None, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = self.default_hint if hint is None else hint
        #: What a program may want to know besides the sentence: a balance, a price, a limit.
        self.facts = facts


class ImportFileInvalid(LongtakeError):
    """The list of files to import cannot be parsed."""

    code = "IMPORT_FILE_INVALID"
    http_status = 422
    default_hint = "Send CSV in UTF-8 with a header: url, and optionally title and kind (image or video)."


class InvalidText(LongtakeError):
    """A text is empty, too long, or contains characters that are not allowed."""

    code = "TEXT_INVALID"
    http_status = 422


class SettingsError(LongtakeError):
    """A setting has a value that cannot be used."""

    code = "SETTINGS_INVALID"
    exit_code = 2
    default_hint = "`longtake settings` lists every setting, its meaning, and where its value came from."


class NotFound(LongtakeError):
    """Nothing with this id or name exists, or it belongs to another user."""

    code = "NOT_FOUND"
    http_status = 404


class StateConflict(LongtakeError):
    """The current state does not allow this."""

    code = "STATE_CONFLICT"
    http_status = 409


class OperatorError(LongtakeError):
    """An operator's request was not understood. Nothing was done."""

    code = "OPERATOR_ERROR"
    exit_code = 2


class UnknownAction(OperatorError):
    """There is no operator action with this name."""

    code = "ACTION_UNKNOWN"
    http_status = 404


class InvalidActionArgument(OperatorError):
    """An argument of an operator action is missing, misspelt or wrong."""

    code = "ACTION_ARGUMENT_INVALID"
    http_status = 422


def errors_by_code() -> dict[str, type[LongtakeError]]:
    """Return every class of errors that is loaded, by its code."""
    found: dict[str, type[LongtakeError]] = {}
    waiting = [LongtakeError]
    while waiting:
        kind = waiting.pop()
        found.setdefault(kind.code, kind)
        waiting += kind.__subclasses__()
    return found
