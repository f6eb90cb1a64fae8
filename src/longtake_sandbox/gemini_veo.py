"""Gemini's Veo: predictLongRunning, the operation it names, and the clip behind a key and a redirect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from longtake_sandbox.exchange import Endpoint, Exchange, json_response
from longtake_sandbox.gemini import (
    BadRequest,
    body_of,
    either,
    error_response,
    refuse,
    small_picture,
    trouble_with_caller,
)

if TYPE_CHECKING:
    from longtake_sandbox.sandbox import Box
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


def read_predict(_box: Box, exchange: Exchange) -> None:
    """Find model and prompt of a submit."""
    exchange.model = exchange.asked.match_info["model"]
    exchange.prompt = str(_instance(body_of(exchange)).get("prompt", ""))


async def predict(box: Box, exchange: Exchange) -> web.StreamResponse:
    """Accept a clip, and name its operation."""
    if trouble := trouble_with_caller(box, exchange):
        return trouble
    if exchange.model not in MODELS:
        message = (
            f"models/{exchange.model} is not found for API version v1beta, or is not supported for predictLongRunning."
        )
        return error_response(404, message, [])
    try:
        param, references = await _checked(box, exchange)
    except BadRequest as bad:
        return error_response(400, str(bad), [])
    if exchange.has_fault("duplicate_id") and (earlier := box.tasks.newest(FAMILY)):
        exchange.task = earlier.id
        return json_response({"name": earlier.id})
    prefix = f"models/{exchange.model}/operations/"
    task = box.tasks.new(
        "gemini", FAMILY, exchange.model, "video", exchange.prompt, now=box.now(), prefix=prefix, param=param
    )
    task.references = references
    if exchange.has_fault("running"):
        task.seconds = float("inf")
    box.accept(task)
    exchange.task = task.id
    return json_response({"name": task.id})


def read_operation(box: Box, exchange: Exchange) -> None:
    """Find the task of a query."""
    found = exchange.asked.match_info
    exchange.task = f"models/{found['model']}/operations/{found['operation']}"
    if task := box.tasks.get(exchange.task, FAMILY):
        exchange.about(task)


async def operation(box: Box, exchange: Exchange) -> web.StreamResponse:
    """Tell how an operation stands; while it runs there is no ``done`` at all."""
    if trouble := trouble_with_caller(box, exchange):
        return trouble
    task = box.tasks.get(exchange.task, FAMILY)
    if task is None:
        return error_response(404, f"Operation {exchange.task} not found.", [])
    if not task.ended(box.now()) or exchange.has_fault("backwards") or exchange.has_fault("running"):
        return json_response({"name": task.id})
    task.told_end = True
    return json_response({"name": task.id, "done": True, **_end(box, task)})


def read_download(box: Box, exchange: Exchange) -> None:
    """Find the task whose clip is asked for."""
    found = exchange.asked.match_info["file"]
    for model in MODELS:
        if task := box.tasks.get(f"models/{model}/operations/{found}", FAMILY):
            exchange.about(task)


async def download(box: Box, exchange: Exchange) -> web.StreamResponse:
    """Lead whoever has a key to the file."""
    if trouble := trouble_with_caller(box, exchange):
        return trouble
    task = box.tasks.get(exchange.task, FAMILY) if exchange.task else None
    if task is None or not task.ended(box.now()) or box.now() > task.ends_at + KEPT_SECONDS:
        return error_response(404, "Requested entity was not found.", [])
    return web.Response(status=302, headers={"Location": box.files.current(box, task)})


def _end(box: Box, task: Task) -> dict[str, Any]:
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
        uri = f"{box.url}/gemini/v1beta/files/{identity}:download?alt=media"
        result = {"generatedSamples": [{"video": {"uri": uri}}]}
    kind = "type.googleapis.com/google.ai.generativelanguage.v1beta.PredictLongRunningResponse"
    return {"response": {"@type": kind, "generateVideoResponse": result}}


async def _checked(box: Box, exchange: Exchange) -> tuple[dict[str, Any], tuple[bytes, ...]]:
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
    return param, (await small_picture(box, encoded),)


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
