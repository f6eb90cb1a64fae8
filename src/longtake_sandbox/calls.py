"""The log of every call: what came in, and what was answered; callbacks that went out are in it too."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class Call:
    """One call. It is logged when it arrives; status 0 says that it has no answer yet, or never got one."""

    sequence: int
    at: float
    monotonic: float
    provider: str
    route: str
    method: str
    path: str
    #: Decoded, and without keys.
    query: str = ""
    task: str = ""
    reference: str = ""
    model: str = ""
    prompt: str = ""
    status: int = 0
    fault: str = ""
    milliseconds: float = 0.0
    #: When it ended, by the clock of ``monotonic``: two calls overlap if each began before the other's end.
    monotonic_end: float = 0.0

    def answered(self, status: int) -> None:
        """Note the answer and how long it took."""
        self.status = status
        self.monotonic_end = time.monotonic()
        self.milliseconds = round((self.monotonic_end - self.monotonic) * 1000, 3)

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in CALL_FIELDS}


CALL_FIELDS = tuple(one.name for one in fields(Call))


class CallLog:
    """The last calls, in the order of their arrival; the oldest make room."""

    def __init__(self, size: int) -> None:
        self._calls: deque[Call] = deque(maxlen=size)
        self.last = 0

    def arrived(self, provider: str, route: str, method: str, path: str, query: str = "") -> Call:
        """Log a call that has no answer yet."""
        self.last += 1
        call = Call(self.last, time.time(), time.monotonic(), provider, route, method, path, query)
        self._calls.append(call)
        return call

    def find(self, since: int = 0, path: str = "", query: str = "", **equal: str) -> list[Call]:
        """Return calls after ``since`` whose path and query contain these and whose fields have the given values."""
        wanted = {name: value for name, value in equal.items() if value}
        found = [
            call
            for call in self._after(since)
            if path in call.path
            and query in call.query
            and all(str(getattr(call, name)) == value for name, value in wanted.items())
        ]
        return found[::-1]

    def summary(self) -> list[dict[str, Any]]:
        """Count the remembered calls by provider, route, status and fault."""
        counts = Counter((call.provider, call.route, call.status, call.fault) for call in self._calls)
        names = ("provider", "route", "status", "fault")
        return [{**dict(zip(names, group, strict=True)), "count": count} for group, count in sorted(counts.items())]

    def clear(self) -> None:
        """Forget all calls; their numbers go on."""
        self._calls.clear()

    def _after(self, since: int) -> Iterator[Call]:
        for call in reversed(self._calls):
            if call.sequence <= since:
                return
            yield call
