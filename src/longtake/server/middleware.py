"""Middleware: gives every request an id, the right host, a bounded body, one log line, and an answer in any case."""

import ipaddress
import re
import time
from collections.abc import Iterable, Mapping

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from longtake.clock import new_id
from longtake.http.problems import HttpProblem, unexpected_problem
from longtake.logs import log_context

BODY_LIMIT = 1_000_000
MOST_DIGITS = 18
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?")
#: Asked every few seconds by machines; a line for each would bury all others.
_QUIET = {"/healthz", "/readyz"}
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
#: Seconds a browser may cache the answer to a preflight request.
REMEMBERED_SECONDS = 600
METHODS = "DELETE, GET, HEAD, PATCH, POST, PUT"
ALLOWED_HEADERS = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Longtake-User, Prefer, X-Request-Id"
EXPOSED_HEADERS = "Idempotent-Replayed, Location, Retry-After, X-Request-Id"

log = structlog.get_logger(__name__)


class Origins:
    """CORS: pages of other origins are refused unless the settings name them, and never get cookies.

    The headers are added to errors too, so that an allowed page can read why its request failed.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = frozenset(allowed)

    def permits(self, headers: Headers) -> bool:
        """Return whether the request comes from a page of an allowed origin."""
        return headers.get("origin", "") in self._allowed

    def preflight(self, method: str, headers: Headers) -> Response | None:
        """Return the answer to a preflight request of an allowed page; None for every other request."""
        if method != "OPTIONS" or "access-control-request-method" not in headers or not self.permits(headers):
            return None
        answer = {
            "Access-Control-Allow-Methods": METHODS,
            "Access-Control-Allow-Headers": ALLOWED_HEADERS,
            "Access-Control-Max-Age": str(REMEMBERED_SECONDS),
        }
        return Response(status_code=204, headers=answer)

    def mark(self, asked: Headers, answer: MutableHeaders) -> None:
        """Add the headers that let an allowed page read the answer."""
        if not self._allowed:
            return
        # Also for pages not allowed: a cache must not give one page's answer to another.
        answer.add_vary_header("Origin")
        if self.permits(asked):
            answer["Access-Control-Allow-Origin"] = asked["origin"]
            answer["Access-Control-Expose-Headers"] = EXPOSED_HEADERS


class Frame:
    """The outermost layer of the application."""

    def __init__(
        self,
        app: ASGIApp,
        allowed_hosts: Iterable[str],
        body_limits: Mapping[tuple[str, str], int] | None = None,
        allowed_origins: Iterable[str] = (),
    ) -> None:
        self._app = app
        self._origins = Origins(allowed_origins)
        self._body_limits = dict(body_limits or {})
        self._hosts = {host.lower() for host in (*LOOPBACK_NAMES, *allowed_hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; pass on anything that is not HTTP."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = headers.get("x-request-id", "")
        if not _REQUEST_ID.fullmatch(request_id):
            request_id = new_id()
        token = log_context.set({"request_id": request_id})
        try:
            await self._answer(scope, headers, receive, _Answer(send, request_id, headers, self._origins))
        finally:
            log_context.reset(token)

    async def _answer(self, scope: Scope, headers: Headers, receive: Receive, answer: "_Answer") -> None:
        started = time.monotonic()
        try:
            refusal = self._refusal(scope, headers)
            preflight = self._origins.preflight(scope["method"], headers)
            if refusal is not None:
                await refusal.response()(scope, receive, answer)
            elif preflight is not None:
                await preflight(scope, receive, answer)
            else:
                await self._app(scope, _bounded(receive, self._body_limit(scope)), answer)
        except Exception:
            log.exception("request failed", action="request", path=scope["path"])
            if answer.status is None:
                await unexpected_problem().response()(scope, receive, answer)
        write = log.debug if scope["path"] in _QUIET else log.info
        write(
            "request",
            action="request",
            method=scope["method"],
            path=scope["path"],
            status=answer.status,
            milliseconds=round((time.monotonic() - started) * 1000, 1),
        )

    def _refusal(self, scope: Scope, headers: Headers) -> HttpProblem | None:
        if not self._is_ours(headers.get("host", ""), scope):
            return HttpProblem(
                "HOST_UNKNOWN",
                "The Host header does not name this server.",
                "Use the address the server listens on, or a loopback name.",
            )
        length = headers.get("content-length", "0")
        limit = self._body_limit(scope)
        # Compared by length first: a number of a million digits is not worth being understood.
        if length.isdecimal() and (len(length) > MOST_DIGITS or int(length) > limit):
            return _too_large(limit)
        return None

    def _body_limit(self, scope: Scope) -> int:
        return self._body_limits.get((scope["method"], scope["path"]), BODY_LIMIT)

    def _is_ours(self, host: str, scope: Scope) -> bool:
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = match["name"].strip("[]").lower()
        if name in self._hosts:
            return True
        # The very address this connection came to: a page that rebinds a name of its own cannot forge that.
        server = scope.get("server")
        return server is not None and _same_address(name, str(server[0]))


class _Answer:
    """Sends the answer and remembers its status."""

    def __init__(self, send: Send, request_id: str, asked: Headers, origins: Origins) -> None:
        self._send = send
        self._request_id = request_id
        self._asked = asked
        self._origins = origins
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self._request_id
            headers["X-Content-Type-Options"] = "nosniff"
            # What may be kept says so itself; everything else is some user's.
            headers.setdefault("Cache-Control", "no-store")
            self._origins.mark(self._asked, headers)
        await self._send(message)


def _bounded(receive: Receive, limit: int) -> Receive:
    """Count the bytes that arrive, so that a body without a length is limited too."""
    received = 0

    async def bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise _too_large(limit)
        return message

    return bounded


def _too_large(limit: int) -> HttpProblem:
    return HttpProblem("BODY_TOO_LARGE", f"The body is larger than {limit:,} bytes.")


def _same_address(one: str, other: str) -> bool:
    try:
        return ipaddress.ip_address(one) == ipaddress.ip_address(other)
    except ValueError:
        return False
