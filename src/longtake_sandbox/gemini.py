"""Gemini's generateContent, which answers with the image itself once the drawing has taken its time.

Its Veo routes share the first part of this file: the error object, the key, and images inside the request.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING, Any

from longtake_sandbox.exchange import UNREADABLE, Endpoint, Exchange, json_response

if TYPE_CHECKING:
    from aiohttp import web

    from longtake_sandbox.faults import Fault
    from longtake_sandbox.sandbox import Sandbox
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
    """Gemini refuses the request. The exception's text is the message."""


def refuse(status: int, code: int, message: str, fault: Fault | None = None) -> web.Response:
    """Return Gemini's error object. A fault may add how long to wait and which quota is used up."""
    # Gemini has no codes inside a 200.
    status = status if status >= FIRST_ERROR else code
    details = _details(fault) if fault else []
    return error_response(status, message, details)


def error_response(status: int, message: str, details: list[dict[str, Any]]) -> web.Response:
    """Return an error object."""
    error: dict[str, Any] = {"code": status, "message": message, "status": STATUSES.get(status, "UNKNOWN")}
    if details:
        error["details"] = details
    return json_response({"error": error}, status)


def check_caller(sandbox: Sandbox, exchange: Exchange) -> web.Response | None:
    """Return the refusal of a call without a valid key; None if the call may pass."""
    request = exchange.request
    key = request.headers.get("x-goog-api-key", "") or request.query.get("key", "")
    if sandbox.accepts_key(key):
        return None
    info = {
        "@type": f"{TYPES}.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com",
        "metadata": {"service": SERVICE},
    }  # fmt: skip
    return error_response(400, "API key not valid. Please pass a valid API key.", [info])


def body_of(exchange: Exchange) -> dict[str, Any]:
    """Return the posted JSON object; an empty one if the body is anything else."""
    content = exchange.body
    return content if content is not UNREADABLE and isinstance(content, dict) else {}


def either(content: Any, camel: str, snake: str) -> Any:
    """Return a field in either spelling that the API takes. None if `content` is no object."""
    return content.get(camel, content.get(snake)) if isinstance(content, dict) else None


async def small_picture(sandbox: Sandbox, encoded: Any) -> bytes:
    """Decode an inline image and return it reduced; raise BadRequest if it is not an image."""
    try:
        content = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise BadRequest("Invalid value at 'data' (TYPE_BYTES), Base64 decoding failed.") from error
    try:
        return await sandbox.studio.reduce(content)
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
#: How often a generation that never ends checks whether its client is still connected.
LOOK_SECONDS = 0.1


def read_generate(_sandbox: Sandbox, exchange: Exchange) -> None:
    """Note model and prompt of a submit."""
    exchange.model = exchange.request.match_info["model"]
    texts = [part["text"] for part in _parts(body_of(exchange)) if isinstance(part.get("text"), str)]
    exchange.prompt = " ".join(texts)


async def generate(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Draw an image and answer with it."""
    if refusal := check_caller(sandbox, exchange):
        return refusal
    if exchange.model not in MODELS:
        message = (
            f"models/{exchange.model} is not found for API version v1beta, or is not supported for generateContent."
        )
        return error_response(404, message, [])
    try:
        param, references = await _read_parameters(sandbox, exchange)
    except BadRequest as bad:
        return error_response(400, str(bad), [])
    task = sandbox.tasks.new(
        "gemini", FAMILY, exchange.model, "image", exchange.prompt, now=sandbox.now(), prefix="generate-", param=param
    )
    task.references = references
    exchange.task = task.id
    sandbox.accept(task)
    while not task.ended(sandbox.now()) and not _is_abandoned(sandbox, exchange, task):  # noqa: ASYNC110 - an end is a time
        await asyncio.sleep(min(max(task.ends_at - sandbox.now(), 0.001), LOOK_SECONDS))
    task.told_end = True
    return await _answer(sandbox, task)


async def _read_parameters(sandbox: Sandbox, exchange: Exchange) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    """Return the parameters and references of the drawing, or raise BadRequest."""
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
    references = [await small_picture(sandbox, one.get("data")) for one in inline if isinstance(one, dict)]
    modalities = either(config, "responseModalities", "response_modalities") or ["TEXT", "IMAGE"]
    if not isinstance(modalities, list):
        raise BadRequest("Invalid value at 'generation_config.response_modalities'")
    wants_image = "IMAGE" in [str(one).upper() for one in modalities]
    return {"aspectRatio": ratio or "1:1", "imageSize": size, "image": wants_image}, tuple(references)


async def _answer(sandbox: Sandbox, task: Task) -> web.Response:
    if task.ending == "fail":
        return error_response(500, "An internal error has occurred. Please retry.", [])
    if task.ending == "blocked":
        return json_response({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, **_rest(task)})
    if task.ending == "safety":
        message = "Unable to show the generated image."
        candidate = {"content": {}, "finishReason": "IMAGE_SAFETY", "finishMessage": message, "index": 0}
        return json_response({"candidates": [candidate], **_rest(task)})
    # A sentence comes first, so that a client that reads only the first part finds no image.
    parts: list[dict[str, Any]] = [{"text": "Here is the image you asked for."}]
    reason = "STOP"
    if task.ending == "empty":
        reason = "NO_IMAGE"
    elif task.param["image"]:
        media = await sandbox.studio.make(sandbox.studio.recipe(task))
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


def _is_abandoned(sandbox: Sandbox, exchange: Exchange, task: Task) -> bool:
    """Return whether to give up: the sandbox stops, or the client of a generation that never ends has gone."""
    transport = exchange.request.transport
    return sandbox.stopping or (task.seconds == float("inf") and (transport is None or transport.is_closing()))


ENDPOINTS = (
    Endpoint(
        "POST", "/gemini/v1beta/models/{model}:generateContent", "gemini", "submit", read_generate, generate, refuse
    ),
)
