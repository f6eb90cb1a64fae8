"""KIE's Veo API: a flat request body, and a flag instead of a state."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from longtake_sandbox.exchange import Endpoint, Exchange
from longtake_sandbox.kie import (
    body_of,
    check_caller,
    check_urls,
    end_of,
    find_task,
    milliseconds,
    read_task_id,
    refuse,
    success,
)
from longtake_sandbox.tasks import Task, reference_of

if TYPE_CHECKING:
    from aiohttp import web

    from longtake_sandbox.sandbox import Sandbox

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


def read_generate(_sandbox: Sandbox, exchange: Exchange) -> None:
    """Note model, prompt and reference of a submit."""
    content = body_of(exchange) or {}
    exchange.model = str(content.get("model", "veo3_fast"))
    exchange.prompt = str(content.get("prompt", ""))
    exchange.reference = reference_of(str(content.get("callBackUrl") or ""))


async def generate(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Accept a clip."""
    if refusal := check_caller(sandbox, exchange):
        return refusal
    content = body_of(exchange)
    if content is None:
        return refuse(200, 422, "The request body is not valid JSON.")
    if wrong := _check(content):
        return refuse(200, 422, wrong)
    task = sandbox.submit(
        exchange,
        FAMILY,
        "video",
        prefix="veo_task_",
        param=content,
        callback_url=str(content.get("callBackUrl") or ""),
        image_urls=list(content.get("imageUrls") or []),
    )
    return success({"taskId": task.id})


async def record_info(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Answer a query with the clip's record."""
    task = find_task(sandbox, exchange, FAMILY)
    if not isinstance(task, Task):
        return task
    flag = flag_of(task, sandbox.now())
    if exchange.has_fault("backwards") or exchange.has_fault("running"):
        flag = RUNNING
    elif exchange.fault and exchange.fault.kind == "unknown_state":
        flag = int(exchange.fault.value) if exchange.fault.value.isdecimal() else UNKNOWN
    else:
        task.told_end = task.told_end or flag != RUNNING
    return success(record(sandbox, task, flag))


def flag_of(task: Task, now: float) -> int:
    """Return the successFlag: 0 while the task runs, 1 when it is done, 2 or 3 when it has failed."""
    state = task.state(now)
    if state == "success":
        return DONE
    if state == "fail":
        return BLOCKED if task.ending in {"blocked", "safety"} else FAILED
    return RUNNING


def record(sandbox: Sandbox, task: Task, flag: int) -> dict[str, Any]:
    """Return the task in record-info's shape, with its results as an array."""
    content: dict[str, Any] = {
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
        content["response"] = {"taskId": task.id, **_results(sandbox, task)}
    elif flag in {FAILED, BLOCKED}:
        code, content["errorMessage"] = end_of(task.ending, task.failure)
        content["errorCode"] = int(code)
    if flag in {DONE, FAILED, BLOCKED}:
        content["completeTime"] = milliseconds(task.ends_at)
    return content


def callback(sandbox: Sandbox, task: Task) -> dict[str, Any]:
    """Return the body of a callback."""
    if flag_of(task, sandbox.now()) in {FAILED, BLOCKED}:
        code, message = end_of(task.ending, task.failure)
        return {"code": int(code), "msg": message, "data": {"taskId": task.id, "fallbackFlag": False}}
    info = _results(sandbox, task) if task.ended(sandbox.now()) else {}
    data = {"taskId": task.id, "info": info, "fallbackFlag": False}
    return {"code": 200, "msg": "Veo video generated successfully.", "data": data}


def _results(sandbox: Sandbox, task: Task) -> dict[str, Any]:
    urls = [] if task.ending == "empty" else [sandbox.files.current(sandbox, task)]
    return {"resultUrls": urls, "originUrls": [], "resolution": str(task.param.get("resolution", "720p"))}


def _check(content: dict[str, Any]) -> str:
    prompt = content.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        return "prompt is required"
    for name, values in CHOICES.items():
        if name in content and content[name] not in values:
            return f"Invalid {name}"
    return check_urls("imageUrls", content.get("imageUrls"), 0, IMAGES_MOST)


_read_query = partial(read_task_id, family=FAMILY)
ENDPOINTS = (
    Endpoint("POST", "/kie/api/v1/veo/generate", "kie", "submit", read_generate, generate, refuse),
    Endpoint("GET", "/kie/api/v1/veo/record-info", "kie", "query", _read_query, record_info, refuse),
)
