"""What Gemini's routes have in common: the error object, the key, and images inside the request."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from longtake_sandbox.exchange import UNREADABLE, Exchange, json_response

if TYPE_CHECKING:
    from aiohttp import web

    from longtake_sandbox.box import Box
    from longtake_sandbox.faults import Fault

TYPES = "type.googleapis.com/google.rpc"
SERVICE = "generativelanguage.googleapis.com"
FIRST_ERROR = 400
STATUSES = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
    409: "ABORTED", 429: "RESOURCE_EXHAUSTED", 499: "CANCELLED", 500: "INTERNAL", 503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}  # fmt: skip


class BadRequest(Exception):
    """A request that Gemini refuses; its text is the message."""


def refuse(status: int, code: int, message: str, fault: Fault | None = None) -> web.Response:
    """Answer with Gemini's error object; a fault may add how long to wait and which quota is spent."""
    # Gemini has no codes inside a 200.
    status = status if status >= FIRST_ERROR else code
    details = _details(fault) if fault else []
    return error_response(status, message, details)


def error_response(status: int, message: str, details: list[dict[str, Any]]) -> web.Response:
    """Answer with an error object."""
    error: dict[str, Any] = {"code": status, "message": message, "status": STATUSES.get(status, "UNKNOWN")}
    if details:
        error["details"] = details
    return json_response({"error": error}, status)


def trouble_with_caller(box: Box, exchange: Exchange) -> web.Response | None:
    """Refuse a call without a good key."""
    request = exchange.asked
    key = request.headers.get("x-goog-api-key", "") or request.query.get("key", "")
    if box.accepts_key(key):
        return None
    info = {
        "@type": f"{TYPES}.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com",
        "metadata": {"service": SERVICE},
    }  # fmt: skip
    return error_response(400, "API key not valid. Please pass a valid API key.", [info])


def body_of(exchange: Exchange) -> dict[str, Any]:
    """Return the JSON object that was posted; anything else is empty."""
    content = exchange.body
    return content if content is not UNREADABLE and isinstance(content, dict) else {}


def either(content: Any, camel: str, snake: str) -> Any:
    """Return a field under either of the two spellings that the API takes; None if there is no object at all."""
    return content.get(camel, content.get(snake)) if isinstance(content, dict) else None


async def small_picture(box: Box, encoded: Any) -> bytes:
    """Return an image that came inside the request, reduced; raise BadRequest if it is none."""
    try:
        content = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise BadRequest("Invalid value at 'data' (TYPE_BYTES), Base64 decoding failed.") from error
    try:
        return await box.studio.reduce(content)
    except (OSError, ValueError) as error:
        raise BadRequest("Unable to process input image. Please retry or report the problem.") from error


def _details(fault: Fault) -> list[dict[str, Any]]:
    details: list[dict[str, Any]] = []
    if fault.quota_id:
        violation = {"quotaMetric": f"{SERVICE}/generate_requests", "quotaId": fault.quota_id}
        details.append({"@type": f"{TYPES}.QuotaFailure", "violations": [violation]})
    if fault.retry_delay:
        details.append({"@type": f"{TYPES}.RetryInfo", "retryDelay": fault.retry_delay})
    return details
