"""KIE's Veo API: a flat body, and a flag instead of a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from longtake_sandbox.exchange import Endpoint, Exchange
from longtake_sandbox.kie import (
    body_of,
    call_about_task,
    end_of,
    milliseconds,
    refuse,
    success,
    trouble_with_caller,
    trouble_with_urls,
)
from longtake_sandbox.tasks import Task, reference_of

if TYPE_CHECKING:
    from aiohttp import web

    from longtake_sandbox.sandbox import Box

FAMILY = "veo"
RUNNING, DONE, FAILED, BLOCKED, UNKNOWN = 0, 1, 2, 3, 9
CHOICES: dict[str, tuple[Any, ...]] = {
    "model": ("veo3", "veo3_fast", "veo3_lite"),
    "aspectRatio": ("16:9", "9:16", "Auto"),
    "aspect_ratio": ("16:9", "9:16", "Auto"),
    "resolution": ("720p", "1080p", "4k"),
    "duration": (4, 6, 8),
    "generationType": ("TEXT_2_VIDEO", "FIRST_AND_LAST_FRAMES_2_VIDEO", "REFERENCE_2_VIDEO"),
}
IMAGES_MOST = 3


def read_generate(_box: Box, exchange: Exchange) -> None:
    """Find model, prompt and reference of a submit."""
    content = body_of(exchange) or {}
    exchange.model = str(content.get("model", "veo3_fast"))
    exchange.prompt = str(content.get("prompt", ""))
    exchange.reference = reference_of(str(content.get("callBackUrl") or ""))


async def generate(box: Box, exchange: Exchange) -> web.StreamResponse:
    """Accept a clip."""
    if trouble := trouble_with_caller(box, exchange):
        return trouble
    content = body_of(exchange)
    if content is None:
        return refuse(200, 422, "The request body is not valid JSON.")
    if wrong := _trouble(content):
        return refuse(200, 422, wrong)
    if exchange.has_fault("duplicate_id") and (earlier := box.tasks.newest(FAMILY)):
        exchange.task = earlier.id
        return success({"taskId": earlier.id})
    callback_url = str(content.get("callBackUrl") or "")
    task = box.tasks.new(
        "kie", FAMILY, exchange.model, "video", exchange.prompt,
        now=box.now(), prefix="veo_task_", param=content, callback_url=callback_url,
    )  # fmt: skip
    if exchange.has_fault("running"):
        task.seconds = float("inf")
    box.accept(task, list(content.get("imageUrls") or []))
    exchange.task = task.id
    return success({"taskId": task.id})


def read_record_info(box: Box, exchange: Exchange) -> None:
    """Find the task of a query."""
    call_about_task(box, exchange, FAMILY)


async def record_info(box: Box, exchange: Exchange) -> web.StreamResponse:
    """Tell how a clip stands."""
    if trouble := trouble_with_caller(box, exchange):
        return trouble
    if not exchange.task:
        return refuse(200, 422, "taskId is required")
    task = box.tasks.get(exchange.task, FAMILY)
    if task is None:
        return refuse(200, 404, "The task does not exist.")
    flag = flag_of(task, box.now())
    if exchange.has_fault("backwards") or exchange.has_fault("running"):
        flag = RUNNING
    elif exchange.fault and exchange.fault.kind == "unknown_state":
        flag = int(exchange.fault.value) if exchange.fault.value.isdecimal() else UNKNOWN
    else:
        task.told_end = task.told_end or flag != RUNNING
    return success(record(box, task, flag))


def flag_of(task: Task, now: float) -> int:
    """Return the successFlag: 0 while it runs, 1 when done, 2 or 3 when failed."""
    state = task.state(now)
    if state == "success":
        return DONE
    if state == "fail":
        return BLOCKED if task.ending in {"blocked", "safety"} else FAILED
    return RUNNING


def record(box: Box, task: Task, flag: int) -> dict[str, Any]:
    """Return a task as record-info tells it; results are a real array."""
    told: dict[str, Any] = {
        "taskId": task.id,
        "paramJson": orjson.dumps(task.param).decode(),
        "createTime": milliseconds(task.created),
        "completeTime": None,
        "response": None,
        "successFlag": flag,
        "errorCode": None,
        "errorMessage": None,
        "fallbackFlag": False,
    }
    if flag == DONE:
        told["response"] = {"taskId": task.id, **_results(box, task)}
    elif flag in {FAILED, BLOCKED}:
        code, told["errorMessage"] = end_of(task.ending, task.failure)
        told["errorCode"] = int(code)
    if flag in {DONE, FAILED, BLOCKED}:
        told["completeTime"] = milliseconds(task.ends_at)
    return told


def callback(box: Box, task: Task) -> dict[str, Any]:
    """Return what is posted when a clip ends."""
    if flag_of(task, box.now()) in {FAILED, BLOCKED}:
        code, message = end_of(task.ending, task.failure)
        return {"code": int(code), "msg": message, "data": {"taskId": task.id, "fallbackFlag": False}}
    info = _results(box, task) if task.ended(box.now()) else {}
    data = {"taskId": task.id, "info": info, "fallbackFlag": False}
    return {"code": 200, "msg": "Veo video generated successfully.", "data": data}


def _results(box: Box, task: Task) -> dict[str, Any]:
    urls = [] if task.ending == "empty" else [box.files.current(box, task)]
    return {"resultUrls": urls, "originUrls": [], "resolution": str(task.param.get("resolution", "720p"))}


def _trouble(content: dict[str, Any]) -> str:
    prompt = content.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        return "prompt is required"
    for name, values in CHOICES.items():
        if name in content and content[name] not in values:
            return f"Invalid {name}"
    return trouble_with_urls("imageUrls", content.get("imageUrls"), 0, IMAGES_MOST)


ENDPOINTS = (
    Endpoint("POST", "/kie/api/v1/veo/generate", "kie", "submit", read_generate, generate, refuse),
    Endpoint("GET", "/kie/api/v1/veo/record-info", "kie", "query", read_record_info, record_info, refuse),
)
