"""Gemini's APIs: generateContent and Veo's predictLongRunning.

generateContent answers with the image itself once the drawing has taken its time. A clip has an operation, and is
behind a key and a redirect.
"""

from __future__ import annotations

import asyncio
import base64
from functools import partial
from typing import TYPE_CHECKING, Any

from aiohttp import web

from longtake_sandbox.calls import Endpoint, Exchange, Refused, json_response

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


def refuse(
    status: int, code: int, message: str, fault: Fault | None = None, details: Iterable[dict[str, Any]] = ()
) -> web.Response:
    """Return Gemini's error object. A fault may add how long to wait and which quota is used up."""
    # Gemini has no codes inside a 200.
    status = status if status >= FIRST_ERROR else code
    error: dict[str, Any] = {"code": status, "message": message, "status": STATUSES.get(status, "UNKNOWN")}
    if all_details := [*details, *_details(fault)]:
        error["details"] = all_details
    return json_response({"error": error}, status)


def _details(fault: Fault | None) -> Iterator[dict[str, Any]]:
    if fault and fault.quota_id:
        violation = {"quotaMetric": f"{SERVICE}/generate_requests", "quotaId": fault.quota_id}
        yield {"@type": f"{TYPES}.QuotaFailure", "violations": [violation]}
    if fault and fault.retry_delay:
        yield {"@type": f"{TYPES}.RetryInfo", "retryDelay": fault.retry_delay}


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
    return refuse(400, 400, "API key not valid. Please pass a valid API key.", details=[info])


def invalid(message: str) -> Refused:
    """Return the refusal of an invalid request."""
    return Refused(400, 400, message)


def check_model(exchange: Exchange, known: tuple[str, ...], method: str) -> None:
    """Refuse a call of a model that does not exist or has no such method."""
    if exchange.model not in known:
        name = f"models/{exchange.model}"
        message = f"{name} is not found for API version v1beta, or is not supported for {method}."
        raise Refused(404, 404, message)


def either(content: Any, camel: str, snake: str) -> Any:
    """Return a field in either spelling that the API takes. None if `content` is no object."""
    return content.get(camel, content.get(snake)) if isinstance(content, dict) else None


async def small_picture(sandbox: Sandbox, encoded: Any) -> bytes:
    """Decode an inline image and return it reduced; refuse anything else."""
    try:
        content = base64.b64decode(encoded, validate=True)
    except (ValueError, TypeError) as error:
        raise invalid("Invalid value at 'data' (TYPE_BYTES), Base64 decoding failed.") from error
    try:
        return await sandbox.studio.reduce(content)
    except (OSError, ValueError) as error:
        raise invalid("Unable to process input image. Please retry or report the problem.") from error


FAMILY = "gemini"
MODELS = ("gemini-3.1-flash-image", "gemini-3-pro-image", "gemini-2.5-flash-image")
RATIOS = ("1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9")
SIZES = ("512", "1K", "2K", "4K")
#: How often a generation that never ends checks whether its client is still connected.
LOOK_SECONDS = 0.1


def read_generate(_sandbox: Sandbox, exchange: Exchange) -> None:
    """Note model and prompt of a submit."""
    exchange.model = exchange.request.match_info["model"]
    texts = [part["text"] for part in _parts(exchange.body) if isinstance(part.get("text"), str)]
    exchange.prompt = " ".join(texts)


async def generate(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Draw an image and answer with it."""
    check_model(exchange, MODELS, "generateContent")
    param, references = await _read_parameters(sandbox, exchange)
    task = sandbox.submit(exchange, FAMILY, "image", prefix="generate-", param=param, references=references)
    while not task.ended(sandbox.now()) and not _is_abandoned(sandbox, exchange, task):  # noqa: ASYNC110 - an end is a time
        await asyncio.sleep(min(max(task.ends_at - sandbox.now(), 0.001), LOOK_SECONDS))
    task.told_end = True
    return await _answer(sandbox, task)


async def _read_parameters(sandbox: Sandbox, exchange: Exchange) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    """Return the parameters and references of the drawing."""
    if not exchange.prompt.strip():
        raise invalid("* GenerateContentRequest.contents: contents is not specified")
    config = either(exchange.body, "generationConfig", "generation_config") or {}
    image = either(config, "imageConfig", "image_config") or {}
    ratio, size = either(image, "aspectRatio", "aspect_ratio"), either(image, "imageSize", "image_size")
    for name, value, known in (("aspect_ratio", ratio, RATIOS), ("image_size", size, SIZES)):
        if value is not None and value not in known:
            raise invalid(f"Invalid value at 'generation_config.image_config.{name}': {value!r}")
    inline = [either(part, "inlineData", "inline_data") for part in _parts(exchange.body)]
    references = [await small_picture(sandbox, one.get("data")) for one in inline if isinstance(one, dict)]
    modalities = either(config, "responseModalities", "response_modalities") or ["TEXT", "IMAGE"]
    if not isinstance(modalities, list):
        raise invalid("Invalid value at 'generation_config.response_modalities'")
    wants_image = "IMAGE" in [str(one).upper() for one in modalities]
    return {"aspectRatio": ratio or "1:1", "imageSize": size, "image": wants_image}, tuple(references)


async def _answer(sandbox: Sandbox, task: Task) -> web.Response:
    if task.ending == "fail":
        raise Refused(500, 500, "An internal error has occurred. Please retry.")
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


def _parts(content: dict[str, Any] | None) -> list[dict[str, Any]]:
    contents = (content or {}).get("contents")
    found: list[dict[str, Any]] = []
    for one in contents if isinstance(contents, list) else []:
        parts = one.get("parts") if isinstance(one, dict) else None
        found += [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return found


def _is_abandoned(sandbox: Sandbox, exchange: Exchange, task: Task) -> bool:
    """Return whether to give up: the sandbox stops, or the client of a generation that never ends has gone."""
    transport = exchange.request.transport
    return sandbox.stopping or (task.seconds == float("inf") and (transport is None or transport.is_closing()))


VEO_FAMILY = "gemini_veo"
VEO_MODELS = ("veo-3.1-generate-preview", "veo-3.1-fast-generate-preview", "veo-3.1-lite-generate-preview")
VEO_CHOICES: dict[str, tuple[Any, ...]] = {
    "aspectRatio": ("16:9", "9:16"),
    "durationSeconds": (4, 6, 8, "4", "6", "8"),
    "resolution": ("720p", "1080p", "4k"),
}
#: A clip is kept for two days.
CLIP_SECONDS = 2 * 24 * 3600.0
#: google.rpc.Code of an internal error.
INTERNAL = 13


def read_predict(_sandbox: Sandbox, exchange: Exchange) -> None:
    """Note model and prompt of a submit."""
    exchange.model = exchange.request.match_info["model"]
    exchange.prompt = str(_instance(exchange.body).get("prompt", ""))


async def predict(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Accept a clip and answer with the name of its operation."""
    check_model(exchange, VEO_MODELS, "predictLongRunning")
    param, references = await _read_veo_parameters(sandbox, exchange)
    prefix = f"models/{exchange.model}/operations/"
    task = sandbox.submit(exchange, VEO_FAMILY, "video", prefix=prefix, param=param, references=references)
    return json_response({"name": task.id})


def read_operation(sandbox: Sandbox, exchange: Exchange) -> None:
    """Note the task of a query."""
    parts = exchange.request.match_info
    exchange.task = f"models/{parts['model']}/operations/{parts['operation']}"
    exchange.about(sandbox.tasks.get(exchange.task, VEO_FAMILY))


async def operation(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Answer with the operation. While it runs it has no ``done`` field."""
    task = exchange.subject
    if task is None:
        raise Refused(404, 404, f"Operation {exchange.task} not found.")
    if not task.ended(sandbox.now()) or exchange.has_fault("backwards") or exchange.has_fault("running"):
        return json_response({"name": task.id})
    task.told_end = True
    return json_response({"name": task.id, "done": True, **_end(sandbox, task)})


def read_download(sandbox: Sandbox, exchange: Exchange) -> None:
    """Note the task whose clip is requested."""
    file = exchange.request.match_info["file"]
    for model in VEO_MODELS:
        exchange.about(sandbox.tasks.get(f"models/{model}/operations/{file}", VEO_FAMILY))


async def download(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Redirect a caller with a valid key to the file."""
    task = exchange.subject
    if task is None or not task.ended(sandbox.now()) or sandbox.now() > task.ends_at + CLIP_SECONDS:
        raise Refused(404, 404, "Requested entity was not found.")
    return web.Response(status=302, headers={"Location": sandbox.files.current(sandbox, task)})


def _end(sandbox: Sandbox, task: Task) -> dict[str, Any]:
    if task.ending == "fail":
        return {"error": {"code": INTERNAL, "message": "Video generation failed due to an internal server issue."}}
    result: dict[str, Any]
    if task.ending in {"blocked", "safety"}:
        reason = "We encountered an issue with the prompt you provided, which may violate our content policies."
        result = {"raiMediaFilteredCount": 1, "raiMediaFilteredReasons": [reason]}
    elif task.ending == "empty":
        result = {"generatedSamples": []}
    else:
        identity = task.id.rpartition("/")[2]
        uri = f"{sandbox.url}/gemini/v1beta/files/{identity}:download?alt=media"
        result = {"generatedSamples": [{"video": {"uri": uri}}]}
    kind = "type.googleapis.com/google.ai.generativelanguage.v1beta.PredictLongRunningResponse"
    return {"response": {"@type": kind, "generateVideoResponse": result}}


async def _read_veo_parameters(sandbox: Sandbox, exchange: Exchange) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    if not exchange.prompt.strip():
        raise invalid("The prompt is required: instances[0].prompt is empty.")
    param = (exchange.body or {}).get("parameters") or {}
    if not isinstance(param, dict):
        raise invalid("Invalid value at 'parameters'.")
    for name, values in VEO_CHOICES.items():
        if name in param and param[name] not in values:
            raise invalid(f"Unsupported value for `{name}`: {param[name]!r}")
    image = _instance(exchange.body).get("image")
    if not isinstance(image, dict):
        return param, ()
    inline = either(image, "inlineData", "inline_data") or image
    encoded = either(inline, "data", "data") or either(inline, "bytesBase64Encoded", "imageBytes")
    return param, (await small_picture(sandbox, encoded),)


def _instance(content: dict[str, Any] | None) -> dict[str, Any]:
    instances = (content or {}).get("instances")
    first = instances[0] if isinstance(instances, list) and instances else {}
    return first if isinstance(first, dict) else {}


_BASE = "/gemini/v1beta"
_MODEL = f"{_BASE}/models/{{model}}"
_endpoint = partial(Endpoint, provider="gemini", refuse=refuse, check=check_caller)
ENDPOINTS = (
    _endpoint("POST", f"{_MODEL}:generateContent", "submit", generate, read_generate),
    _endpoint("POST", f"{_MODEL}:predictLongRunning", "submit", predict, read_predict),
    _endpoint("GET", f"{_MODEL}/operations/{{operation}}", "query", operation, read_operation),
    _endpoint("GET", f"{_BASE}/files/{{file}}:download", "link", download, read_download),
)
