"""The log of all calls: requests that came in with their answers, and callbacks that went out."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class Call:
    """One call, logged when it arrives. Status 0: no answer yet, or none at all."""

    sequence: int
    at: float
    monotonic: float
    provider: str
    route: str
    method: str
    path: str
    #: Decoded, without keys.
    query: str = ""
    task: str = ""
    reference: str = ""
    model: str = ""
    prompt: str = ""
    status: int = 0
    fault: str = ""
    milliseconds: float = 0.0
    #: The end, on the clock of ``monotonic``. Two calls overlap if each began before the other's end.
    monotonic_end: float = 0.0

    def answered(self, status: int) -> None:
        """Record the answer's status and the time it took."""
        self.status = status
        self.monotonic_end = time.monotonic()
        self.milliseconds = round((self.monotonic_end - self.monotonic) * 1000, 3)

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in CALL_FIELDS}


CALL_FIELDS = tuple(one.name for one in fields(Call))


class CallLog:
    """The last `size` calls, in the order of their arrival."""

    def __init__(self, size: int) -> None:
        self._calls: deque[Call] = deque(maxlen=size)
        self.last = 0

    def arrived(self, provider: str, route: str, method: str, path: str, query: str = "") -> Call:
        """Log a call and return its entry, to be completed with the answer."""
        self.last += 1
        call = Call(self.last, time.time(), time.monotonic(), provider, route, method, path, query)
        self._calls.append(call)
        return call

    def find(self, since: int = 0, path: str = "", query: str = "", **equal: str) -> list[Call]:
        """Return the calls after ``since`` that contain this path and query and have these field values."""
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
        """Count the logged calls by provider, route, status and fault."""
        counts = Counter((call.provider, call.route, call.status, call.fault) for call in self._calls)
        names = ("provider", "route", "status", "fault")
        return [{**dict(zip(names, group, strict=True)), "count": count} for group, count in sorted(counts.items())]

    def clear(self) -> None:
        """Forget all calls. Numbering continues."""
        self._calls.clear()

    def _after(self, since: int) -> Iterator[Call]:
        for call in reversed(self._calls):
            if call.sequence <= since:
                return
            yield call
