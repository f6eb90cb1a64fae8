"""Gemini's Veo: predictLongRunning, its operation, and the clip behind a key and a redirect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from longtake_sandbox.exchange import Endpoint, Exchange, json_response
from longtake_sandbox.gemini import (
    BadRequest,
    body_of,
    check_caller,
    either,
    error_response,
    refuse,
    small_picture,
)

if TYPE_CHECKING:
    from longtake_sandbox.sandbox import Sandbox
    from longtake_sandbox.tasks import Task

FAMILY = "gemini_veo"
MODELS = ("veo-3.1-generate-preview", "veo-3.1-fast-generate-preview", "veo-3.1-lite-generate-preview")
CHOICES: dict[str, tuple[Any, ...]] = {
    "aspectRatio": ("16:9", "9:16"),
    "durationSeconds": (4, 6, 8, "4", "6", "8"),
    "resolution": ("720p", "1080p", "4k"),
}
#: A clip is kept for two days.
KEPT_SECONDS = 2 * 24 * 3600.0
#: google.rpc.Code of an internal error.
INTERNAL = 13


def read_predict(_sandbox: Sandbox, exchange: Exchange) -> None:
    """Note model and prompt of a submit."""
    exchange.model = exchange.request.match_info["model"]
    exchange.prompt = str(_instance(body_of(exchange)).get("prompt", ""))


async def predict(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Accept a clip and answer with the name of its operation."""
    if refusal := check_caller(sandbox, exchange):
        return refusal
    if exchange.model not in MODELS:
        message = (
            f"models/{exchange.model} is not found for API version v1beta, or is not supported for predictLongRunning."
        )
        return error_response(404, message, [])
    try:
        param, references = await _read_parameters(sandbox, exchange)
    except BadRequest as bad:
        return error_response(400, str(bad), [])
    prefix = f"models/{exchange.model}/operations/"
    task = sandbox.submit(exchange, FAMILY, "video", prefix=prefix, param=param, references=references)
    return json_response({"name": task.id})


def read_operation(sandbox: Sandbox, exchange: Exchange) -> None:
    """Note the task of a query."""
    parts = exchange.request.match_info
    exchange.task = f"models/{parts['model']}/operations/{parts['operation']}"
    if task := sandbox.tasks.get(exchange.task, FAMILY):
        exchange.about(task)


async def operation(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Answer with the operation. While it runs it has no ``done`` field."""
    if refusal := check_caller(sandbox, exchange):
        return refusal
    task = sandbox.tasks.get(exchange.task, FAMILY)
    if task is None:
        return error_response(404, f"Operation {exchange.task} not found.", [])
    if not task.ended(sandbox.now()) or exchange.has_fault("backwards") or exchange.has_fault("running"):
        return json_response({"name": task.id})
    task.told_end = True
    return json_response({"name": task.id, "done": True, **_end(sandbox, task)})


def read_download(sandbox: Sandbox, exchange: Exchange) -> None:
    """Note the task whose clip is requested."""
    file = exchange.request.match_info["file"]
    for model in MODELS:
        if task := sandbox.tasks.get(f"models/{model}/operations/{file}", FAMILY):
            exchange.about(task)


async def download(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Redirect a caller with a valid key to the file."""
    if refusal := check_caller(sandbox, exchange):
        return refusal
    task = sandbox.tasks.get(exchange.task, FAMILY) if exchange.task else None
    if task is None or not task.ended(sandbox.now()) or sandbox.now() > task.ends_at + KEPT_SECONDS:
        return error_response(404, "Requested entity was not found.", [])
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


async def _read_parameters(sandbox: Sandbox, exchange: Exchange) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    content = body_of(exchange)
    if not exchange.prompt.strip():
        raise BadRequest("The prompt is required: instances[0].prompt is empty.")
    param = content.get("parameters") or {}
    if not isinstance(param, dict):
        raise BadRequest("Invalid value at 'parameters'.")
    for name, values in CHOICES.items():
        if name in param and param[name] not in values:
            raise BadRequest(f"Unsupported value for `{name}`: {param[name]!r}")
    image = _instance(content).get("image")
    if not isinstance(image, dict):
        return param, ()
    inline = either(image, "inlineData", "inline_data") or image
    encoded = either(inline, "data", "data") or either(inline, "bytesBase64Encoded", "imageBytes")
    return param, (await small_picture(sandbox, encoded),)


def _instance(content: dict[str, Any]) -> dict[str, Any]:
    instances = content.get("instances")
    first = instances[0] if isinstance(instances, list) and instances else {}
    return first if isinstance(first, dict) else {}


_BASE = "/gemini/v1beta"
_OPERATION = f"{_BASE}/models/{{model}}/operations/{{operation}}"
ENDPOINTS = (
    Endpoint("POST", f"{_BASE}/models/{{model}}:predictLongRunning", "gemini", "submit", read_predict, predict, refuse),
    Endpoint("GET", _OPERATION, "gemini", "query", read_operation, operation, refuse),
    Endpoint("GET", f"{_BASE}/files/{{file}}:download", "gemini", "link", read_download, download, refuse),
)
