"""How a fault shows on the wire: codes, silence, cut connections, and bodies that are not what they should be."""

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
    from longtake_sandbox.sandbox import Box

PAGE = "<!DOCTYPE html><html><head><title>Sorry</title></head><body><h1>Something went wrong</h1></body></html>"
GARBAGE = b'{"code": 200, "msg": "succ'
#: Begins as a JPEG does, so that only those who decode it find out.
NO_PICTURE = b"\xff\xd8\xff\xe0" + bytes(range(256)) * 16
ENDLESS_PIECE = bytes(64 * 1024)
#: Timers of the event loop may be so early; who asked for a delay counts on all of it.
TIMER_SECONDS = 0.001
#: Between two pieces, so that an endless body leaves the machine to others.
ENDLESS_PAUSE_SECONDS = 0.005
#: How often a silent call looks whether its client is still there.
SILENCE_SECONDS = 0.05
#: The log's word for an answer that never was.
NO_ANSWER = 499


async def spoil(box: Box, endpoint: Endpoint, exchange: Exchange, fault: Fault) -> web.StreamResponse:
    """Answer a call as its fault says."""
    if fault.delay:
        await asyncio.sleep(fault.delay + TIMER_SECONDS)
    if fault.kind in INSIDE:
        return await endpoint.answer(box, exchange)
    if fault.kind not in AFTERWARDS and not fault.after:
        return await _instead(box, endpoint, exchange, fault)
    done = await endpoint.answer(box, exchange)
    if fault.kind in {"missing", "replace"}:
        return _edited(done, fault)
    if fault.kind in {"truncated", "endless"}:
        return await _streamed(exchange.asked, done, endless=fault.kind == "endless")
    if fault.kind == "empty":
        return web.Response(status=200, content_type=done.content_type)
    if fault.kind == "wrong_type":
        return _retyped(done, fault.value or "application/octet-stream")
    return await _instead(box, endpoint, exchange, fault)


def refused(endpoint: Endpoint, fault: Fault) -> web.Response:
    """Answer with a status or code, in the provider's shape unless text or HTML is asked for."""
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
    """Return the header's text: seconds, a date that far ahead for ``date:SECONDS``, or the text as it is."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if text.startswith("date:"):
        return formatdate(time.time() + float(text.removeprefix("date:")), usegmt=True)
    return text


async def _instead(box: Box, endpoint: Endpoint, exchange: Exchange, fault: Fault) -> web.StreamResponse:
    if fault.kind == "status":
        return refused(endpoint, fault)
    if fault.kind == "html":
        return web.Response(text=PAGE, content_type="text/html")
    if fault.kind == "garbage" and exchange.route == "image":
        return web.Response(body=NO_PICTURE, content_type="image/jpeg")
    if fault.kind == "garbage":
        return web.Response(body=GARBAGE, content_type="application/json")
    if fault.kind in {"hang", "accept_then_hang"}:
        await _be_silent(box, exchange.asked)
    return _cut(exchange.asked)


async def _be_silent(box: Box, request: web.Request) -> None:
    while request.transport is not None and not request.transport.is_closing() and not box.stopping:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(SILENCE_SECONDS)


def _cut(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=NO_ANSWER)


async def _streamed(request: web.Request, done: web.StreamResponse, *, endless: bool) -> web.StreamResponse:
    """Send half of a body under the length of the whole, or the body and then more without end."""
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


def _edited(done: web.StreamResponse, fault: Fault) -> web.Response:
    content = orjson.loads(_body(done))
    for path in fault.fields:
        _change(content, path.split("."), None)
    for path, value in fault.replace.items():
        _change(content, path.split("."), (value,))
    return web.Response(body=orjson.dumps(content), status=done.status, content_type="application/json")


def _change(content: Any, path: list[str], value: tuple[Any] | None) -> None:
    """Set the value at a path, or remove it; a path that leads nowhere changes nothing."""
    *parents, last = path
    for name in parents:
        content = content.get(name) if isinstance(content, dict) else None
    if isinstance(content, dict):
        if value is None:
            content.pop(last, None)
        else:
            content[last] = value[0]


def _retyped(done: web.StreamResponse, content_type: str) -> web.Response:
    return web.Response(body=_body(done), status=done.status, headers={"Content-Type": content_type})


def _body(done: web.StreamResponse) -> bytes:
    content = done.body if isinstance(done, web.Response) else b""
    return content if isinstance(content, bytes) else b""
