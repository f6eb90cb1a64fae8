"""The one HTTP client of a process: pooled, guarded, and exact about what may have been sent."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
from yarl import URL

from longtake.adapters.net.answers import PIECE_BYTES, Answer, StreamedAnswer, read_whole
from longtake.adapters.net.connections import open_connector
from longtake.adapters.net.failures import FAILURES, translate
from longtake.adapters.net.guard import AddressGuard
from longtake.adapters.net.urls import Target, read_url, redirected, shown_url
from longtake.errors import AddressRefused, AnswerInvalid, NetError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from aiohttp.abc import AbstractResolver

USER_AGENT = "Longtake"
#: Most time between two pieces of a stream, however long all of it may take.
STALL_SECONDS = 30.0
_REPEATABLE = frozenset(("GET", "HEAD"))
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
#: What may be said to a host that we were sent to. Anything else may be a credential, whatever its name is.
_HARMLESS = frozenset((
    "accept", "accept-encoding", "accept-language", "if-modified-since", "if-none-match", "if-range", "range",
    "user-agent",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Call:
    """One request on its way, perhaps over several hosts."""

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
        """Return the call that follows a redirect: no credential leaves its origin, nor goes from https to http."""
        if target.origin == self.target.origin:
            return replace(self, target=target, followed=self.followed + 1)
        headers = {name: value for name, value in self.headers.items() if name.lower() in _HARMLESS}
        if self.target.scheme == "https" and target.scheme == "http" and len(headers) < len(self.headers):
            raise AddressRefused(f"{shown_url(self.target.url)} leads from https to http.", hint="")
        return replace(self, target=target, headers=headers, followed=self.followed + 1)


class HttpClient:
    """Requests to other servers.

    GET and HEAD use kept connections, and follow redirects if they are told to; otherwise a redirect is an answer like
    any other. A POST has a connection of its own: a kept one may be closed by the server just when
    it is used, and then nobody could say whether the request arrived.
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
    ) -> Answer:
        """Return the whole answer, whatever its status, or raise a NetError."""
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
        return Answer(response.status, response.headers, content, call.target.url)

    async def tell(self, url: str, body: bytes, headers: Mapping[str, str], *, seconds: float) -> Answer:
        """POST something of which only the status counts: redirects are not followed, its body is not read."""
        call = self._call("POST", read_url(url, self._guard), dict(headers), seconds, redirects=0)
        response, call = await self._open(replace(call, body=body))
        response.close()
        return Answer(response.status, response.headers, b"", call.target.url)

    def check_url(self, url: str) -> None:
        """Raise AddressRefused for a URL that could never be asked; what its name leads to is seen when it is."""
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
    ) -> AsyncIterator[StreamedAnswer]:
        """Open an answer to be read in pieces; `seconds` is for all of it."""
        call = self._call(method, read_url(url, self._guard), dict(headers or {}), seconds, redirects)
        stall = min(STALL_SECONDS, seconds)
        response, call = await self._open(replace(call, stall=stall))
        try:
            yield StreamedAnswer(response, call.target.url, most_bytes=most_bytes, seconds=seconds, stall=stall)
        finally:
            response.close()

    async def close(self) -> None:
        """Close all connections; further requests are refused."""
        self._closed = True
        for session in (self._kept, self._single):
            if session is not None:
                await session.close()

    def _call(self, method: str, target: Target, headers: dict[str, str], seconds: float, redirects: int) -> _Call:
        own = {"User-Agent": self._user_agent, "Accept-Encoding": "identity"}
        deadline = asyncio.get_running_loop().time() + seconds
        return _Call(method.upper(), target, own | headers, None, seconds, deadline, redirects)

    async def _open(self, call: _Call) -> tuple[aiohttp.ClientResponse, _Call]:
        """Return the answer's beginning, and the call as it was after the redirects."""
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
                raise AnswerInvalid(f"{shown_url(call.target.url)} redirects once more, after {call.followed} times.")
            return call.led_to(target)
        except NetError as error:
            error.sent = True
            raise

    async def _ask(self, call: _Call, progress: SimpleNamespace) -> aiohttp.ClientResponse:
        left = call.deadline - asyncio.get_running_loop().time()
        if left <= 0:
            raise TimeoutError
        # Not aiohttp's own limit for reading: it may run on after the end, on a connection that is kept for the next.
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
    # Called just before the first byte is handed over: from here on the server may have seen the request.
    context.trace_request_ctx.sent = True
