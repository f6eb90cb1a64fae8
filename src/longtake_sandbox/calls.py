"""Every call: its log, and its path: read it, log it, choose a fault, answer it."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from longtake_sandbox.faults import answer_with_fault
from longtake_sandbox.tasks import reference_of

if TYPE_CHECKING:
    from longtake_sandbox.faults import Fault
    from longtake_sandbox.sandbox import Sandbox
    from longtake_sandbox.tasks import Task


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
        self.status = status
        self.monotonic_end = time.monotonic()
        self.milliseconds = round((self.monotonic_end - self.monotonic) * 1000, 3)

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


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
        after = takewhile(lambda call: call.sequence > since, reversed(self._calls))
        found = [
            call
            for call in after
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


#: Query parameters that the log leaves out.
KEYS_IN_QUERIES = {"key", "api_key"}


@dataclass(slots=True)
class Exchange:
    """A call and the facts read from it. Fault rules match on these facts."""

    provider: str
    route: str
    path: str
    #: The query string, decoded and without keys: ``page=2&query=…``.
    query: str = ""
    #: None for a callback, which the sandbox sends itself.
    incoming: web.Request | None = None
    #: The posted JSON object; None for any other body.
    body: dict[str, Any] | None = None
    task: str = ""
    callback_url: str = ""
    model: str = ""
    prompt: str = ""
    #: The known task that the call is about, and whether an earlier query or callback has reported its end.
    subject: Task | None = None
    told_end: bool = False
    fault: Fault | None = None

    @property
    def request(self) -> web.Request:
        """Return the incoming request; raise ValueError for a callback."""
        if self.incoming is None:
            raise ValueError("A callback has no incoming request.")
        return self.incoming

    def about(self, task: Task | None) -> None:
        """Note the task that the call is about, if it is known."""
        if task is not None:
            self.provider, self.task, self.model, self.prompt = task.provider, task.id, task.model, task.prompt
            self.callback_url, self.subject, self.told_end = task.callback_url, task, task.told_end

    @property
    def fault_value(self) -> str:
        return self.fault.value if self.fault else ""

    def has_fault(self, kind: str) -> bool:
        return self.fault is not None and self.fault.kind == kind


class Refused(Exception):
    """The request is refused. The arguments are an HTTP status, the provider's code, and a message."""


def read_nothing(_sandbox: Sandbox, _exchange: Exchange) -> None:
    """Read nothing: the path and query say all."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A route of a provider.

    ``read`` fills in what the call is about, ``check`` returns the refusal of a caller, ``answer`` does the work, and
    ``refuse`` builds an error in the provider's shape from a status, a code, a message, and perhaps a fault.
    """

    method: str
    path: str
    route: str
    answer: Callable[[Sandbox, Exchange], Awaitable[web.StreamResponse]]
    read: Callable[[Sandbox, Exchange], None] = read_nothing
    _: KW_ONLY
    provider: str
    refuse: Callable[..., web.Response]
    check: Callable[[Sandbox, Exchange], web.Response | None] | None = None

    async def reply(self, sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
        """Answer a caller that passes the check; refuse any other."""
        if self.check is not None and (refusal := self.check(sandbox, exchange)) is not None:
            return refusal
        try:
            return await self.answer(sandbox, exchange)
        except Refused as refused:
            return self.refuse(*refused.args)

    async def handle(self, sandbox: Sandbox, request: web.Request) -> web.StreamResponse:
        query = _query(request) if request.query_string else ""
        call = sandbox.calls.arrived(self.provider, self.route, request.method, request.path, query)
        exchange = Exchange(self.provider, self.route, request.path, query, request)
        if request.body_exists:
            exchange.body = _json_object(await request.read())
        self.read(sandbox, exchange)
        call.provider, call.task, call.reference = exchange.provider, exchange.task, reference_of(exchange.callback_url)
        call.model, call.prompt = exchange.model, exchange.prompt
        fault = exchange.fault = sandbox.faults.choose(exchange) if sandbox.faults.rules else None
        if fault is None:
            response = await self.reply(sandbox, exchange)
        else:
            call.fault = fault.kind
            response = await answer_with_fault(sandbox, self, exchange, fault)
        # A submit has its task's id only now.
        call.task = exchange.task
        call.answered(response.status)
        sandbox.report(call)
        return response


def json_response(content: Any, status: int = 200) -> web.Response:
    """Return a JSON response."""
    return web.Response(body=orjson.dumps(content), status=status, content_type="application/json")


def _query(request: web.Request) -> str:
    return "&".join(f"{name}={value}" for name, value in request.query.items() if name.lower() not in KEYS_IN_QUERIES)


def _json_object(content: bytes) -> dict[str, Any] | None:
    try:
        posted = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return posted if isinstance(posted, dict) else None
