"""Fault rules: which calls they match, how often, and how faults look on the wire."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from dataclasses import dataclass
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Literal

import orjson
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, model_validator

if TYPE_CHECKING:
    from longtake_sandbox.calls import Endpoint, Exchange
    from longtake_sandbox.sandbox import Sandbox

Kind = Literal[
    "status",  # answer with a status code, in the provider's own shape or as text or HTML
    "delay",  # answer as usual, but later
    "hang",  # no answer until the client gives up
    "drop",  # close the connection without an answer
    "accept_then_drop",  # do the work, then close the connection without an answer
    "accept_then_hang",  # do the work, then say nothing until the client gives up
    "truncated",  # half the body under the whole body's length
    "endless",  # a body that does not end
    "html",  # a page with status 200 instead of the answer
    "garbage",  # JSON that is not JSON, or a JPEG that is no picture
    "empty",  # status 200 and no body
    "wrong_type",  # the right body under another content type (value)
    "missing",  # JSON without some fields (fields)
    "replace",  # JSON with other values (replace: path with dots -> value)
    "unknown_state",  # a query answers with an undocumented state (value)
    "backwards",  # a query answers "running" after it reported the end
    "running",  # a submit whose task never ends; a query that says so
    "duplicate_id",  # a submit answers with the id of the task before
    "duplicate",  # a callback is sent three times
    "forged",  # a callback with a wrong signature and a lie in it
    "early",  # a callback that says the end before the end
]
#: Kinds that do the work first, or change its answer.
AFTERWARDS = {
    "accept_then_drop", "accept_then_hang", "truncated", "endless", "empty", "wrong_type", "missing", "replace",
}  # fmt: skip
#: Kinds that the endpoint itself carries out.
INSIDE = {"delay", "unknown_state", "backwards", "running", "duplicate_id", "duplicate", "forged", "early"}

#: Kinds that make sense on some routes only.
ROUTES = {
    "unknown_state": {"query"}, "backwards": {"query"}, "running": {"submit", "query"}, "duplicate_id": {"submit"},
    "duplicate": {"callback"}, "forged": {"callback"}, "early": {"callback"},
}  # fmt: skip


class Posted(BaseModel):
    """A JSON object whose members are all known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Match(Posted):
    """The calls that a rule concerns. An empty field matches every call."""

    provider: str = ""
    route: str = ""
    model: str = ""
    task: str = ""
    prompt_contains: str = ""
    path_contains: str = ""
    query_contains: str = ""

    def fits(self, exchange: Exchange) -> bool:
        return (
            self.provider in {"", exchange.provider}
            and self.route in {"", exchange.route}
            and self.model in {"", exchange.model}
            and self.task in {"", exchange.task}
            and self.prompt_contains in exchange.prompt
            and self.path_contains in exchange.path
            and self.query_contains in exchange.query
        )


class Fault(Posted):
    """What happens to a matching call."""

    kind: Kind
    #: The HTTP status. A code without a status is sent inside a 200, as KIE does.
    status: int | None = Field(None, ge=200, le=599)
    code: int | None = None
    message: str = ""
    body: Literal["provider", "text", "html"] = "provider"
    #: Seconds, ``date:SECONDS`` for a date that far ahead, or any other text, sent unchanged.
    retry_after: int | float | str | None = None
    #: The retryDelay of Gemini's RetryInfo, such as ``38s``, and the quotaId of its QuotaFailure.
    retry_delay: str = ""
    quota_id: str = ""
    #: Seconds before anything else happens.
    delay: float = Field(0.0, ge=0)
    #: Do the work, then answer with the error all the same.
    after: bool = False
    value: str = ""
    fields: tuple[str, ...] = ()
    replace: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_complete(self) -> Fault:
        if self.kind == "status" and self.status is None and self.code is None:
            raise ValueError("a status fault names a status or a code")
        if self.kind == "delay" and not self.delay:
            raise ValueError("a delay fault names a delay in seconds")
        if self.kind == "missing" and not self.fields:
            raise ValueError("a missing fault names fields")
        if self.kind == "replace" and not self.replace:
            raise ValueError("a replace fault names what to replace")
        return self


class RuleBody(Posted):
    """A rule as posted. Without ``times`` and ``probability`` it applies to every match until it is deleted."""

    match: Match = Match()
    fault: Fault
    times: int | None = Field(None, ge=1)
    probability: float | None = Field(None, ge=0, le=1)
    #: How many matching calls to spare first.
    skip: int = Field(0, ge=0)


@dataclass(slots=True)
class Rule:
    """An active rule and its counts."""

    id: int
    body: RuleBody
    seen: int = 0
    applied: int = 0

    def fits(self, exchange: Exchange) -> bool:
        """Return whether the rule concerns this call. A callback must be named, because it goes the other way."""
        kind, match = self.body.fault.kind, self.body.match
        if exchange.route not in ROUTES.get(kind, {exchange.route}):
            return False
        if exchange.route == "callback" and kind not in ROUTES and match.route != "callback":
            return False
        if kind == "backwards" and not exchange.told_end:
            return False
        return match.fits(exchange)

    def as_dict(self) -> dict[str, Any]:
        content = self.body.model_dump(exclude_defaults=True, exclude_none=True)
        return {"id": self.id, "match": {}, **content, "seen": self.seen, "applied": self.applied}


class Faults:
    """The rules in the order they were added. The first that applies decides."""

    def __init__(self, seed: int) -> None:
        self.rules: list[Rule] = []
        self._numbers = itertools.count(1)
        self._dice = random.Random(seed)

    def add(self, body: RuleBody) -> Rule:
        rule = Rule(next(self._numbers), body)
        self.rules.append(rule)
        return rule

    def remove(self, number: int | None = None) -> int:
        """Remove one rule, or all; return how many were removed."""
        before = len(self.rules)
        self.rules = [rule for rule in self.rules if number is not None and rule.id != number]
        return before - len(self.rules)

    def choose(self, exchange: Exchange) -> Fault | None:
        """Return the fault for a call, if a rule applies, and count it."""
        for rule in self.rules:
            if rule.fits(exchange) and self._applies(rule):
                rule.applied += 1
                return rule.body.fault
        return None

    def _applies(self, rule: Rule) -> bool:
        rule.seen += 1
        if rule.seen <= rule.body.skip or (rule.body.times is not None and rule.applied >= rule.body.times):
            return False
        return rule.body.probability is None or self._dice.random() < rule.body.probability


PAGE = "<!DOCTYPE html><html><head><title>Sorry</title></head><body><h1>Something went wrong</h1></body></html>"
GARBAGE = b'{"code": 200, "msg": "succ'
#: Starts like a JPEG; only decoding it shows that it is none.
NO_PICTURE = b"\xff\xd8\xff\xe0" + bytes(range(256)) * 16
ENDLESS_PIECE = bytes(64 * 1024)
#: The event loop's timers may fire this much early. A test counts on the whole delay.
TIMER_SECONDS = 0.001
#: The pause between two pieces, so that an endless body does not take the whole processor.
ENDLESS_PAUSE_SECONDS = 0.005
#: How often a silent call checks whether its client is still connected.
SILENCE_SECONDS = 0.05
#: The logged status of a call that never got an answer.
NO_ANSWER = 499


async def answer_with_fault(
    sandbox: Sandbox, endpoint: Endpoint, exchange: Exchange, fault: Fault
) -> web.StreamResponse:
    """Answer a call as its fault demands."""
    if fault.delay:
        await asyncio.sleep(fault.delay + TIMER_SECONDS)
    if fault.kind in INSIDE:
        return await endpoint.reply(sandbox, exchange)
    if fault.kind not in AFTERWARDS and not fault.after:
        return await _answer_instead(sandbox, endpoint, exchange, fault)
    done = await endpoint.reply(sandbox, exchange)
    if fault.kind in {"missing", "replace"}:
        return _edit(done, fault)
    if fault.kind in {"truncated", "endless"}:
        return await _stream(exchange.request, done, endless=fault.kind == "endless")
    if fault.kind == "empty":
        return web.Response(status=200, content_type=done.content_type)
    if fault.kind == "wrong_type":
        headers = {"Content-Type": fault.value or "application/octet-stream"}
        return web.Response(body=_body(done), status=done.status, headers=headers)
    return await _answer_instead(sandbox, endpoint, exchange, fault)


def error_response(endpoint: Endpoint, fault: Fault) -> web.Response:
    """Return an error with the fault's status and code, in the provider's shape or as text or HTML."""
    status = fault.status or 200
    message = fault.message or f"The sandbox was told to answer {fault.code or status}."
    if fault.body == "html":
        response = web.Response(text=PAGE, status=status, content_type="text/html")
    elif fault.body == "text":
        response = web.Response(text=message, status=status)
    else:
        response = endpoint.refuse(status, fault.code or status, message, fault)
    if fault.retry_after is not None:
        response.headers["Retry-After"] = retry_after(fault.retry_after)
    return response


def retry_after(value: float | str) -> str:
    """Return the header's text: seconds, a date for ``date:SECONDS``, or the given text unchanged."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if text.startswith("date:"):
        return formatdate(time.time() + float(text.removeprefix("date:")), usegmt=True)
    return text


async def _answer_instead(sandbox: Sandbox, endpoint: Endpoint, exchange: Exchange, fault: Fault) -> web.StreamResponse:
    if fault.kind == "status":
        return error_response(endpoint, fault)
    if fault.kind == "html":
        return web.Response(text=PAGE, content_type="text/html")
    if fault.kind == "garbage" and exchange.route == "image":
        return web.Response(body=NO_PICTURE, content_type="image/jpeg")
    if fault.kind == "garbage":
        return web.Response(body=GARBAGE, content_type="application/json")
    if fault.kind in {"hang", "accept_then_hang"}:
        await _wait_for_disconnect(sandbox, exchange.request)
    if exchange.request.transport is not None:
        exchange.request.transport.abort()
    return web.Response(status=NO_ANSWER)


async def _wait_for_disconnect(sandbox: Sandbox, request: web.Request) -> None:
    while request.transport is not None and not request.transport.is_closing() and not sandbox.stopping:  # noqa: ASYNC110 - aiohttp has no event for it
        await asyncio.sleep(SILENCE_SECONDS)


async def _stream(request: web.Request, done: web.StreamResponse, *, endless: bool) -> web.StreamResponse:
    """Send half of a body under the length of the whole, or the body and then zeros without end."""
    content = _body(done)
    response = web.StreamResponse(status=done.status, headers={"Content-Type": done.headers["Content-Type"]})
    if not endless:
        response.content_length = len(content)
    try:
        await response.prepare(request)
        await response.write(content if endless else content[: len(content) // 2])
        while endless:
            await response.write(ENDLESS_PIECE)
            await asyncio.sleep(ENDLESS_PAUSE_SECONDS)
    except (ConnectionError, OSError):
        return response
    if request.transport is not None:
        request.transport.close()
    return response


def _edit(done: web.StreamResponse, fault: Fault) -> web.Response:
    content = orjson.loads(_body(done))
    for path in fault.fields:
        _change(content, path.split("."), None)
    for path, value in fault.replace.items():
        _change(content, path.split("."), (value,))
    return web.Response(body=orjson.dumps(content), status=done.status, content_type="application/json")


def _change(content: Any, path: list[str], value: tuple[Any] | None) -> None:
    """Set the value at a path, or remove it. A path that does not exist changes nothing."""
    *parents, last = path
    for name in parents:
        content = content.get(name) if isinstance(content, dict) else None
    if isinstance(content, dict):
        if value is None:
            content.pop(last, None)
        else:
            content[last] = value[0]


def _body(done: web.StreamResponse) -> bytes:
    content = done.body if isinstance(done, web.Response) else b""
    return content if isinstance(content, bytes) else b""
