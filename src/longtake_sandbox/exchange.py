"""One call and its answer: read, logged, answered, or spoilt by a fault. Every provider's route goes through here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import orjson
from aiohttp import web

from longtake_sandbox.fault_responses import spoil
from longtake_sandbox.tasks import reference_of

if TYPE_CHECKING:
    from longtake_sandbox.faults import Fault
    from longtake_sandbox.sandbox import Box
    from longtake_sandbox.tasks import Task

#: A body that could not be read as JSON.
UNREADABLE = object()
#: What callers put into a query and nobody may read afterwards.
KEYS_IN_QUERIES = {"key", "api_key"}


@dataclass(slots=True)
class Exchange:
    """A call, and what was found in it before anything is decided about it."""

    provider: str
    route: str
    path: str
    #: What stands behind the path, decoded and without keys: ``page=2&query=…``.
    query: str = ""
    #: None for a callback, which is a call that the sandbox makes itself.
    request: web.Request | None = None
    body: Any = None
    task: str = ""
    reference: str = ""
    model: str = ""
    prompt: str = ""
    #: The task's end was told to somebody before.
    told_end: bool = False
    fault: Fault | None = None

    @property
    def asked(self) -> web.Request:
        """Return the request of a call that came in."""
        if self.request is None:
            raise ValueError("A callback has no request.")
        return self.request

    def about(self, task: Task) -> None:
        """Note which task the call is about."""
        self.provider, self.task, self.model, self.prompt = task.provider, task.id, task.model, task.prompt
        self.reference = reference_of(task.callback_url)
        self.told_end = task.told_end

    def has_fault(self, kind: str) -> bool:
        """Say whether a fault of this kind was chosen for the call."""
        return self.fault is not None and self.fault.kind == kind


class Refuse(Protocol):
    """Makes a provider's error answer."""

    def __call__(self, status: int, code: int, message: str, fault: Fault | None = None) -> web.Response: ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A route of a provider: ``read`` finds out what a call is about, ``answer`` does the work."""

    method: str
    path: str
    provider: str
    route: str
    read: Callable[[Box, Exchange], None]
    answer: Callable[[Box, Exchange], Awaitable[web.StreamResponse]]
    refuse: Refuse

    def handler(self, box: Box) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Return what the server calls."""

        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._handle(box, request)

        return handle

    async def _handle(self, box: Box, request: web.Request) -> web.StreamResponse:
        query = _query(request) if request.query_string else ""
        call = box.calls.arrived(self.provider, self.route, request.method, request.path, query)
        exchange = Exchange(self.provider, self.route, request.path, query, request)
        if request.body_exists:
            exchange.body = _json(await request.read())
        self.read(box, exchange)
        call.provider, call.task, call.reference = exchange.provider, exchange.task, exchange.reference
        call.model, call.prompt = exchange.model, exchange.prompt
        fault = exchange.fault = box.faults.choose(exchange) if box.faults.rules else None
        if fault is None:
            response = await self.answer(box, exchange)
        else:
            call.fault = fault.kind
            response = await spoil(box, self, exchange, fault)
        # A submit has an id only now.
        call.task = exchange.task
        call.answered(response.status)
        box.report(call)
        return response


def read_address(_box: Box, _exchange: Exchange) -> None:
    """Find nothing: all that the call is about stands in its address."""


def json_response(content: Any, status: int = 200) -> web.Response:
    """Answer with JSON."""
    return web.Response(body=orjson.dumps(content), status=status, content_type="application/json")


def _query(request: web.Request) -> str:
    return "&".join(f"{name}={value}" for name, value in request.query.items() if name.lower() not in KEYS_IN_QUERIES)


def _json(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return UNREADABLE
