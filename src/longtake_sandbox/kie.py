"""KIE's job API: createTask, recordInfo, download-url."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from longtake_sandbox.exchange import Endpoint, Exchange
from longtake_sandbox.kie_models import MODELS
from longtake_sandbox.kie_shapes import (
    body_of,
    call_about_task,
    end_of,
    milliseconds,
    refuse,
    success,
    trouble_with_caller,
)
from longtake_sandbox.tasks import Task, reference_of

if TYPE_CHECKING:
    from aiohttp import web

    from longtake_sandbox.box import Box

FAMILY = "jobs"
DOWNLOAD_LINK_SECONDS = 20 * 60.0


def read_create(_box: Box, exchange: Exchange) -> None:
    """Find model, prompt and reference of a submit."""
    content = body_of(exchange) or {}
    given = content.get("input")
    exchange.model = str(content.get("model", ""))
    exchange.prompt = str(given.get("prompt", "")) if isinstance(given, dict) else ""
    exchange.reference = reference_of(str(content.get("callBackUrl") or ""))


async def create(box: Box, exchange: Exchange) -> web.StreamResponse:
    """Accept a task."""
    if trouble := trouble_with_caller(box, exchange):
        return trouble
    content = body_of(exchange)
    if content is None:
        return refuse(200, 422, "The request body is not valid JSON.")
    model = MODELS.get(exchange.model)
    if model is None:
        return refuse(200, 422, "The model name you specified is not supported. Please verify the model name.")
    given = content.get("input")
    if not isinstance(given, dict):
        return refuse(200, 422, "input cannot be null")
    if wrong := model.trouble(given):
        return refuse(200, 422, wrong)
    if exchange.has_fault("duplicate_id") and (earlier := box.tasks.newest(FAMILY)):
        exchange.task = earlier.id
        return success({"taskId": earlier.id})
    callback = str(content.get("callBackUrl") or "")
    task = box.tasks.new(
        "kie", FAMILY, exchange.model, model.kind, exchange.prompt, now=box.now(), param=given, callback_url=callback
    )
    if exchange.has_fault("running"):
        task.seconds = float("inf")
    box.accept(task, model.image_urls(given))
    exchange.task = task.id
    return success({"taskId": task.id})


def read_record_info(box: Box, exchange: Exchange) -> None:
    """Find the task of a query."""
    call_about_task(box, exchange, FAMILY)


async def record_info(box: Box, exchange: Exchange) -> web.StreamResponse:
    """Tell how a task stands."""
    if trouble := trouble_with_caller(box, exchange):
        return trouble
    if not exchange.task:
        return refuse(200, 422, "taskId is required")
    task = box.tasks.get(exchange.task, FAMILY)
    if task is None:
        return refuse(200, 404, "The task does not exist.")
    state = task.state(box.now())
    if exchange.has_fault("backwards") or exchange.has_fault("running"):
        state = "generating"
    elif exchange.fault and exchange.fault.kind == "unknown_state":
        state = exchange.fault.value or "pondering"
    else:
        task.told_end = task.told_end or state in {"success", "fail"}
    return success(record(box, task, state))


def record(box: Box, task: Task, state: str) -> dict[str, Any]:
    """Return a task as recordInfo tells it; results are JSON inside a text."""
    told: dict[str, Any] = {
        "taskId": task.id,
        "model": task.model,
        "state": state,
        "param": orjson.dumps({"model": task.model, "input": task.param, "callBackUrl": task.callback_url}).decode(),
        "resultJson": "",
        "failCode": None,
        "failMsg": None,
        "costTime": None,
        "completeTime": None,
        "createTime": milliseconds(task.created),
        "updateTime": milliseconds(min(box.now(), task.ends_at)),
    }
    if state == "success":
        urls = [] if task.ending == "empty" else [box.files.current(box, task)]
        told["resultJson"] = orjson.dumps({"resultUrls": urls}).decode()
    elif state == "fail":
        told["failCode"], told["failMsg"] = end_of(task.ending, task.failure)
    if state in {"success", "fail"}:
        told["costTime"] = milliseconds(task.seconds)
        told["completeTime"] = milliseconds(task.ends_at)
    return told


def callback(box: Box, task: Task) -> dict[str, Any]:
    """Return what is posted when a task ends: the shape of the query."""
    state = task.state(box.now())
    if state == "fail":
        return {"code": 501, "msg": "Playground task failed.", "data": record(box, task, state)}
    return {"code": 200, "msg": "Playground task completed successfully.", "data": record(box, task, state)}


def read_download_url(box: Box, exchange: Exchange) -> None:
    """Find the task whose file is meant."""
    url = (body_of(exchange) or {}).get("url")
    if isinstance(url, str) and (shared := box.files.find(url)):
        exchange.about(shared.task)


async def download_url(box: Box, exchange: Exchange) -> web.StreamResponse:
    """Give out an address that works for 20 minutes."""
    if trouble := trouble_with_caller(box, exchange):
        return trouble
    task = box.tasks.get(exchange.task) if exchange.task else None
    if task is None:
        return refuse(200, 422, "The address is not of a file that was generated here.")
    return success(box.files.share(box, task, DOWNLOAD_LINK_SECONDS))


ENDPOINTS = (
    Endpoint("POST", "/kie/api/v1/jobs/createTask", "kie", "submit", read_create, create, refuse),
    Endpoint("GET", "/kie/api/v1/jobs/recordInfo", "kie", "query", read_record_info, record_info, refuse),
    Endpoint("POST", "/kie/api/v1/common/download-url", "kie", "link", read_download_url, download_url, refuse),
)
