"""What Gemini's routes have in common: the error object, the key, and images inside the request."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING, Any

from longtake_sandbox.exchange import UNREADABLE, Endpoint, Exchange, json_response

if TYPE_CHECKING:
    from aiohttp import web

    from longtake_sandbox.faults import Fault
    from longtake_sandbox.sandbox import Box
    from longtake_sandbox.tasks import Task

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


FAMILY = "gemini"
MODELS = ("gemini-3.1-flash-image", "gemini-3-pro-image", "gemini-2.5-flash-image")
RATIOS = ("1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9")
SIZES = ("512", "1K", "2K", "4K")
#: How often a generation that never ends looks whether its client is still there.
LOOK_SECONDS = 0.1


def read_generate(_box: Box, exchange: Exchange) -> None:
    """Find model and prompt of a submit."""
    exchange.model = exchange.asked.match_info["model"]
    texts = [part["text"] for part in _parts(body_of(exchange)) if isinstance(part.get("text"), str)]
    exchange.prompt = " ".join(texts)


async def generate(box: Box, exchange: Exchange) -> web.StreamResponse:
    """Draw, and answer with the drawing."""
    if trouble := trouble_with_caller(box, exchange):
        return trouble
    if exchange.model not in MODELS:
        message = (
            f"models/{exchange.model} is not found for API version v1beta, or is not supported for generateContent."
        )
        return error_response(404, message, [])
    try:
        param, references = await _checked(box, exchange)
    except BadRequest as bad:
        return error_response(400, str(bad), [])
    task = box.tasks.new(
        "gemini", FAMILY, exchange.model, "image", exchange.prompt, now=box.now(), prefix="generate-", param=param
    )
    task.references = references
    exchange.task = task.id
    box.accept(task)
    while not task.ended(box.now()) and not _is_in_vain(box, exchange, task):  # noqa: ASYNC110 - an end is a time
        await asyncio.sleep(min(max(task.ends_at - box.now(), 0.001), LOOK_SECONDS))
    task.told_end = True
    return await _answer(box, task)


async def _checked(box: Box, exchange: Exchange) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    """Return what decides about the drawing, or raise BadRequest."""
    content = body_of(exchange)
    if not exchange.prompt.strip():
        raise BadRequest("* GenerateContentRequest.contents: contents is not specified")
    config = either(content, "generationConfig", "generation_config") or {}
    image = either(config, "imageConfig", "image_config") or {}
    ratio = either(image, "aspectRatio", "aspect_ratio")
    if ratio is not None and ratio not in RATIOS:
        raise BadRequest(f"Invalid value at 'generation_config.image_config.aspect_ratio': {ratio!r}")
    size = either(image, "imageSize", "image_size")
    if size is not None and size not in SIZES:
        raise BadRequest(f"Invalid value at 'generation_config.image_config.image_size': {size!r}")
    inline = [either(part, "inlineData", "inline_data") for part in _parts(content)]
    references = [await small_picture(box, one.get("data")) for one in inline if isinstance(one, dict)]
    wanted = either(config, "responseModalities", "response_modalities") or ["TEXT", "IMAGE"]
    if not isinstance(wanted, list):
        raise BadRequest("Invalid value at 'generation_config.response_modalities'")
    param = {"aspectRatio": ratio or "1:1", "imageSize": size, "image": "IMAGE" in [str(one).upper() for one in wanted]}
    return param, tuple(references)


async def _answer(box: Box, task: Task) -> web.Response:
    if task.ending == "fail":
        return error_response(500, "An internal error has occurred. Please retry.", [])
    if task.ending == "blocked":
        return json_response({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, **_rest(task)})
    if task.ending == "safety":
        message = "Unable to show the generated image."
        candidate = {"content": {}, "finishReason": "IMAGE_SAFETY", "finishMessage": message, "index": 0}
        return json_response({"candidates": [candidate], **_rest(task)})
    # A sentence comes first, so that a reader who takes only the first part finds no image.
    parts: list[dict[str, Any]] = [{"text": "Here is the image you asked for."}]
    reason = "STOP"
    if task.ending == "empty":
        reason = "NO_IMAGE"
    elif task.param["image"]:
        media = await box.studio.make(box.studio.recipe(task))
        data = base64.b64encode(media.content).decode()
        parts.append({"inlineData": {"mimeType": media.content_type, "data": data}})
    candidate = {"content": {"parts": parts, "role": "model"}, "finishReason": reason, "index": 0}
    return json_response({"candidates": [candidate], **_rest(task)})


def _rest(task: Task) -> dict[str, Any]:
    count = len(task.prompt.split())
    usage = {"promptTokenCount": count, "candidatesTokenCount": 1290, "totalTokenCount": count + 1290}
    return {"usageMetadata": usage, "modelVersion": task.model, "responseId": task.id.removeprefix("generate-")}


def _parts(content: dict[str, Any]) -> list[dict[str, Any]]:
    contents = content.get("contents")
    found: list[dict[str, Any]] = []
    for one in contents if isinstance(contents, list) else []:
        parts = one.get("parts") if isinstance(one, dict) else None
        found += [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return found


def _is_in_vain(box: Box, exchange: Exchange, task: Task) -> bool:
    """Say whether nobody waits any more for what never ends; any other generation goes on without its client."""
    transport = exchange.asked.transport
    return box.stopping or (task.seconds == float("inf") and (transport is None or transport.is_closing()))


ENDPOINTS = (
    Endpoint(
        "POST", "/gemini/v1beta/models/{model}:generateContent", "gemini", "submit", read_generate, generate, refuse
    ),
)
