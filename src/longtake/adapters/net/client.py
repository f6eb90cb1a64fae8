"""The HTTP client of a process: pooled, SSRF-safe, and exact about whether a request may have been sent."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
from yarl import URL

from longtake.adapters.net.errors import AddressRefused, AnswerInvalid, NetError
from longtake.adapters.net.guard import AddressGuard, Target, open_connector, read_url, redirected, shown_url
from longtake.adapters.net.responses import FAILURES, PIECE_BYTES, Response, StreamedResponse, read_whole, translate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from aiohttp.abc import AbstractResolver

USER_AGENT = "Longtake"
#: The longest pause between two pieces of a stream.
STALL_SECONDS = 30.0
_REPEATABLE = frozenset(("GET", "HEAD"))
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
#: Headers that may follow a redirect to another host. Any other header may be a credential.
_HARMLESS = frozenset((
    "accept", "accept-encoding", "accept-language", "if-modified-since", "if-none-match", "if-range", "range",
    "user-agent",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Call:
    """One request, which redirects may lead over several hosts."""

    method: str
    target: Target
    headers: Mapping[str, str]
    body: bytes | None
    seconds: float
    deadline: float
    redirects: int
    followed: int = 0
    stall: float | None = None

    def led_to(self, target: Target) -> _Call:
        """Return the call that follows a redirect. No credential leaves its origin or goes from https to http."""
        if target.origin == self.target.origin:
            return replace(self, target=target, followed=self.followed + 1)
        headers = {name: value for name, value in self.headers.items() if name.lower() in _HARMLESS}
        if self.target.scheme == "https" and target.scheme == "http" and len(headers) < len(self.headers):
            raise AddressRefused(f"{shown_url(self.target.url)} redirects from https to http.", hint="")
        return replace(self, target=target, headers=headers, followed=self.followed + 1)


class HttpClient:
    """Sends requests to other servers.

    GET and HEAD use pooled connections, and follow redirects if `redirects` says how many; otherwise a redirect is
    returned like any other answer. A POST gets its own connection: the server may close a pooled one just when it is
    used, and then it would be unknown whether the request arrived.
    """

    def __init__(
        self,
        *,
        allowed_addresses: Sequence[str] = (),
        most_connections: int = 2_000,
        most_per_host: int = 1_000,
        resolver: AbstractResolver | None = None,
        user_agent: str = USER_AGENT,
    ) -> None:
        self._guard = AddressGuard(allowed_addresses)
        self._limits = {"most": most_connections, "most_per_host": most_per_host}
        self._resolver = resolver
        self._user_agent = user_agent
        self._kept: aiohttp.ClientSession | None = None
        self._single: aiohttp.ClientSession | None = None
        self._closed = False

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        body: bytes | None = None,
        params: Mapping[str, Any] | None = None,
        seconds: float = 10.0,
        most_bytes: int = 1_000_000,
        redirects: int = 0,
    ) -> Response:
        """Return the whole answer, of any status, or raise a NetError."""
        sent_headers = dict(headers or {})
        if json is not None:
            body = orjson.dumps(json)
            sent_headers["Content-Type"] = "application/json"
        call = self._call(method, read_url(url, self._guard, params), sent_headers, seconds, redirects)
        response, call = await self._open(replace(call, body=body))
        try:
            content = await read_whole(response, call.target.url, most_bytes, seconds)
        finally:
            response.close()
        return Response(response.status, response.headers, content, call.target.url)

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], *, seconds: float) -> Response:
        """POST a body and return the status and headers. Follows no redirects and does not read the answer's body."""
        call = self._call("POST", read_url(url, self._guard), dict(headers), seconds, redirects=0)
        response, call = await self._open(replace(call, body=body))
        response.close()
        return Response(response.status, response.headers, b"", call.target.url)

    def check_url(self, url: str) -> None:
        """Raise AddressRefused for a URL that can never be requested. The host name is resolved only by a request."""
        read_url(url, self._guard)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        seconds: float,
        most_bytes: int,
        redirects: int = 5,
    ) -> AsyncIterator[StreamedResponse]:
        """Open an answer to be read in pieces; `seconds` limits the whole of it."""
        call = self._call(method, read_url(url, self._guard), dict(headers or {}), seconds, redirects)
        stall = min(STALL_SECONDS, seconds)
        response, call = await self._open(replace(call, stall=stall))
        try:
            yield StreamedResponse(response, call.target.url, most_bytes=most_bytes, seconds=seconds, stall=stall)
        finally:
            response.close()

    async def close(self) -> None:
        """Close all connections. Further requests raise RuntimeError."""
        self._closed = True
        for session in (self._kept, self._single):
            if session is not None:
                await session.close()

    def _call(self, method: str, target: Target, headers: dict[str, str], seconds: float, redirects: int) -> _Call:
        own = {"User-Agent": self._user_agent, "Accept-Encoding": "identity"}
        deadline = asyncio.get_running_loop().time() + seconds
        return _Call(method.upper(), target, own | headers, None, seconds, deadline, redirects)

    async def _open(self, call: _Call) -> tuple[aiohttp.ClientResponse, _Call]:
        """Return the response before its body is read, and the call after all redirects."""
        sent = False
        while True:
            progress = SimpleNamespace(sent=sent)
            try:
                response = await self._ask(call, progress)
            except FAILURES as error:
                raise translate(error, shown_url(call.target.url), call.seconds, sent=progress.sent) from None
            except NetError as error:
                error.sent = progress.sent
                raise
            location = response.headers.get("Location")
            if not (call.redirects and response.status in _REDIRECTS and location and call.method in _REPEATABLE):
                return response, call
            response.close()
            sent = True
            call = self._follow(call, location)

    def _follow(self, call: _Call, location: str) -> _Call:
        try:
            target = redirected(call.target, location, self._guard)
            if call.followed == call.redirects:
                raise AnswerInvalid(f"{shown_url(call.target.url)} redirects again after {call.followed} redirects.")
            return call.led_to(target)
        except NetError as error:
            error.sent = True
            raise

    async def _ask(self, call: _Call, progress: SimpleNamespace) -> aiohttp.ClientResponse:
        left = call.deadline - asyncio.get_running_loop().time()
        if left <= 0:
            raise TimeoutError
        # Not aiohttp's own read timeout: it may still run when the pooled connection serves the next request.
        async with asyncio.timeout(call.stall):
            return await self._session(call.method).request(
                call.method,
                URL(call.target.url, encoded=True),
                headers=call.headers,
                data=call.body,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=left),
                trace_request_ctx=progress,
            )

    def _session(self, method: str) -> aiohttp.ClientSession:
        if self._closed:
            raise RuntimeError("the HTTP client is closed")
        if method in _REPEATABLE:
            self._kept = self._kept or self._new_session(kept=True)
            return self._kept
        self._single = self._single or self._new_session(kept=False)
        return self._single

    def _new_session(self, *, kept: bool) -> aiohttp.ClientSession:
        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(_note_sent)
        return aiohttp.ClientSession(
            connector=open_connector(self._guard, self._resolver, kept=kept, **self._limits),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            read_bufsize=2 * PIECE_BYTES,
            trace_configs=[trace],
        )


async def _note_sent(_session: aiohttp.ClientSession, context: SimpleNamespace, _params: Any) -> None:
    # Called just before the first byte is written: from here on the server may have seen the request.
    context.trace_request_ctx.sent = True
