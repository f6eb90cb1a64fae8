"""The root of all errors that are raised on purpose."""

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


def errors_by_code() -> dict[str, type[LongtakeError]]:
    """Return every class of errors that is loaded, by its code."""
    found: dict[str, type[LongtakeError]] = {}
    waiting = [LongtakeError]
    while waiting:
        kind = waiting.pop()
        found.setdefault(kind.code, kind)
        waiting += kind.__subclasses__()
    return found
