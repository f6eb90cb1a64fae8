"""What KIE's two APIs have in common: envelopes with a code inside HTTP 200, bearer keys, limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from longtake_sandbox.exchange import UNREADABLE, Exchange, json_response

if TYPE_CHECKING:
    from aiohttp import web

    from longtake_sandbox.box import Box
    from longtake_sandbox.faults import Fault

FLAGGED = "Your prompt was flagged by Website as violating content policies."
BROKEN = "Internal Error, Please try again later."


def success(data: Any) -> web.Response:
    """Answer with data."""
    return json_response({"code": 200, "msg": "success", "data": data})


def refuse(status: int, code: int, message: str, fault: Fault | None = None) -> web.Response:  # noqa: ARG001
    """Answer with an error in KIE's envelope."""
    return json_response({"code": code, "msg": message, "data": None}, status)


def trouble_with_caller(box: Box, exchange: Exchange) -> web.Response | None:
    """Refuse a call without a good key, or one too many."""
    request = exchange.asked
    key = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
    if not box.accepts_key(key):
        return refuse(200, 401, "You do not have access permissions")
    if exchange.route == "submit":
        admitted = box.submits.admit(key, box.options.submit_limit, box.now())
    else:
        admitted = box.queries.admit(key, box.options.query_limit, box.now())
    if not admitted:
        return refuse(429, 429, "Your call frequency is too high. Please try again later.")
    return None


def body_of(exchange: Exchange) -> dict[str, Any] | None:
    """Return the JSON object that was posted, or None."""
    content = exchange.body
    return content if content is not UNREADABLE and isinstance(content, dict) else None


def milliseconds(moment: float) -> int:
    """Return a time as KIE writes it."""
    return int(moment * 1000)


def trouble_with_urls(name: str, value: Any, least: int, most: int) -> str:
    """Say what is wrong with a list of image addresses; empty if nothing."""
    if value is None:
        value = []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        return f"{name} must be an array of strings"
    if not least <= len(value) <= most:
        return f"{name} must have {least} to {most} items"
    if not all(one.startswith(("http://", "https://")) for one in value):
        return f"{name} file type not supported or not an address"
    return ""


def call_about_task(box: Box, exchange: Exchange, family: str) -> None:
    """Note the task that a query names."""
    exchange.task = exchange.asked.query.get("taskId", "")
    if task := box.tasks.get(exchange.task, family):
        exchange.about(task)


def end_of(ending: str, failure: str) -> tuple[str, str]:
    """Return the code and the sentence of a failure."""
    if ending in {"blocked", "safety"}:
        return "400", FLAGGED
    return ("422", failure) if failure else ("500", BROKEN)
