"""The path of every call: read it, log it, choose a fault, answer it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import orjson
from aiohttp import web

from longtake_sandbox.fault_responses import answer_with_fault
from longtake_sandbox.tasks import reference_of

if TYPE_CHECKING:
    from longtake_sandbox.faults import Fault
    from longtake_sandbox.sandbox import Sandbox
    from longtake_sandbox.tasks import Task

#: Stands for a body that is not JSON.
UNREADABLE = object()
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
    body: Any = None
    task: str = ""
    reference: str = ""
    model: str = ""
    prompt: str = ""
    #: An earlier query or callback has reported the task's end.
    told_end: bool = False
    fault: Fault | None = None

    @property
    def request(self) -> web.Request:
        """Return the incoming request; raise ValueError for a callback."""
        if self.incoming is None:
            raise ValueError("A callback has no incoming request.")
        return self.incoming

    def about(self, task: Task) -> None:
        """Note the task that the call is about."""
        self.provider, self.task, self.model, self.prompt = task.provider, task.id, task.model, task.prompt
        self.reference = reference_of(task.callback_url)
        self.told_end = task.told_end

    def has_fault(self, kind: str) -> bool:
        """Return whether a fault of this kind was chosen for the call."""
        return self.fault is not None and self.fault.kind == kind


class Refuse(Protocol):
    """Builds an error response in a provider's shape."""

    def __call__(self, status: int, code: int, message: str, fault: Fault | None = None) -> web.Response: ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A route of a provider. ``read`` fills in what the call is about, ``answer`` does the work."""

    method: str
    path: str
    provider: str
    route: str
    read: Callable[[Sandbox, Exchange], None]
    answer: Callable[[Sandbox, Exchange], Awaitable[web.StreamResponse]]
    refuse: Refuse

    def handler(self, sandbox: Sandbox) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Return the request handler for aiohttp."""

        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._handle(sandbox, request)

        return handle

    async def _handle(self, sandbox: Sandbox, request: web.Request) -> web.StreamResponse:
        query = _query(request) if request.query_string else ""
        call = sandbox.calls.arrived(self.provider, self.route, request.method, request.path, query)
        exchange = Exchange(self.provider, self.route, request.path, query, request)
        if request.body_exists:
            exchange.body = _json(await request.read())
        self.read(sandbox, exchange)
        call.provider, call.task, call.reference = exchange.provider, exchange.task, exchange.reference
        call.model, call.prompt = exchange.model, exchange.prompt
        fault = exchange.fault = sandbox.faults.choose(exchange) if sandbox.faults.rules else None
        if fault is None:
            response = await self.answer(sandbox, exchange)
        else:
            call.fault = fault.kind
            response = await answer_with_fault(sandbox, self, exchange, fault)
        # A submit has its task's id only now.
        call.task = exchange.task
        call.answered(response.status)
        sandbox.report(call)
        return response


def read_address(_sandbox: Sandbox, _exchange: Exchange) -> None:
    """Read nothing: the path and query say all."""


def json_response(content: Any, status: int = 200) -> web.Response:
    """Return a JSON response."""
    return web.Response(body=orjson.dumps(content), status=status, content_type="application/json")


def _query(request: web.Request) -> str:
    return "&".join(f"{name}={value}" for name, value in request.query.items() if name.lower() not in KEYS_IN_QUERIES)


def _json(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return UNREADABLE
