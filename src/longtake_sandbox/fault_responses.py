"""How faults look on the wire: error codes, silence, cut connections and broken bodies."""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from longtake_sandbox.faults import AFTERWARDS, INSIDE

if TYPE_CHECKING:
    from longtake_sandbox.exchange import Endpoint, Exchange
    from longtake_sandbox.faults import Fault
    from longtake_sandbox.sandbox import Sandbox

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
        return await endpoint.answer(sandbox, exchange)
    if fault.kind not in AFTERWARDS and not fault.after:
        return await _answer_instead(sandbox, endpoint, exchange, fault)
    done = await endpoint.answer(sandbox, exchange)
    if fault.kind in {"missing", "replace"}:
        return _edit(done, fault)
    if fault.kind in {"truncated", "endless"}:
        return await _stream(exchange.request, done, endless=fault.kind == "endless")
    if fault.kind == "empty":
        return web.Response(status=200, content_type=done.content_type)
    if fault.kind == "wrong_type":
        return _change_type(done, fault.value or "application/octet-stream")
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
    return _cut(exchange.request)


async def _wait_for_disconnect(sandbox: Sandbox, request: web.Request) -> None:
    while request.transport is not None and not request.transport.is_closing() and not sandbox.stopping:  # noqa: ASYNC110 - aiohttp has no event for it
        await asyncio.sleep(SILENCE_SECONDS)


def _cut(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=NO_ANSWER)


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


def _change_type(done: web.StreamResponse, content_type: str) -> web.Response:
    return web.Response(body=_body(done), status=done.status, headers={"Content-Type": content_type})


def _body(done: web.StreamResponse) -> bytes:
    content = done.body if isinstance(done, web.Response) else b""
    return content if isinstance(content, bytes) else b""
