"""KIE's APIs: createTask, recordInfo and download-url for jobs; generate and record-info for Veo.

Both have envelopes with a code inside HTTP 200, bearer keys and limits. Veo has a flat request body, and a flag instead
of a state.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from longtake_sandbox.calls import UNREADABLE, Endpoint, Exchange, json_response
from longtake_sandbox.tasks import Task, reference_of

if TYPE_CHECKING:
    from aiohttp import web

    from longtake_sandbox.faults import Fault
    from longtake_sandbox.sandbox import Sandbox

FAMILY = "jobs"
DOWNLOAD_LINK_SECONDS = 20 * 60.0
FLAGGED = "Your prompt was flagged by Website as violating content policies."
BROKEN = "Internal Error, Please try again later."
PROMPT_LONGEST = 20_000
IMAGE_RATIOS = ("1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9", "auto")
VIDEO_RATIOS = ("1:1", "9:16", "16:9")
FORMATS = ("png", "jpeg", "jpg")


def success(data: Any) -> web.Response:
    """Return a successful answer."""
    return json_response({"code": 200, "msg": "success", "data": data})


def refuse(status: int, code: int, message: str, fault: Fault | None = None) -> web.Response:  # noqa: ARG001
    """Return an error in KIE's envelope."""
    return json_response({"code": code, "msg": message, "data": None}, status)


def check_caller(sandbox: Sandbox, exchange: Exchange) -> web.Response | None:
    """Return the refusal of a call without a valid key or over its limit; None if the call may pass."""
    request = exchange.request
    key = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
    if not sandbox.accepts_key(key):
        return refuse(200, 401, "You do not have access permissions")
    if exchange.route == "submit":
        admitted = sandbox.submits.admit(key, sandbox.options.submit_limit, sandbox.now())
    else:
        admitted = sandbox.queries.admit(key, sandbox.options.query_limit, sandbox.now())
    if not admitted:
        return refuse(429, 429, "Your call frequency is too high. Please try again later.")
    return None


def body_of(exchange: Exchange) -> dict[str, Any] | None:
    """Return the posted JSON object; None if the body is anything else."""
    content = exchange.body
    return content if content is not UNREADABLE and isinstance(content, dict) else None


def milliseconds(seconds: float) -> int:
    """Return a time in KIE's unit."""
    return int(seconds * 1000)


def check_urls(name: str, value: Any, least: int, most: int) -> str:
    """Return what is wrong with a list of image URLs, or an empty string."""
    if value is None:
        value = []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        return f"{name} must be an array of strings"
    if not least <= len(value) <= most:
        return f"{name} must have {least} to {most} items"
    if not all(one.startswith(("http://", "https://")) for one in value):
        return f"{name} file type not supported or not an address"
    return ""


def read_task_id(sandbox: Sandbox, exchange: Exchange, *, family: str) -> None:
    """Note the task that a query names."""
    exchange.task = exchange.request.query.get("taskId", "")
    if task := sandbox.tasks.get(exchange.task, family):
        exchange.about(task)


def find_task(sandbox: Sandbox, exchange: Exchange, family: str) -> Task | web.Response:
    """Return the task of a query, or the refusal to answer with."""
    if not exchange.task:
        return refuse(200, 422, "taskId is required")
    return sandbox.tasks.get(exchange.task, family) or refuse(200, 404, "The task does not exist.")


def end_of(ending: str, failure: str) -> tuple[str, str]:
    """Return the code and the message of a failed task."""
    if ending in {"blocked", "safety"}:
        return "400", FLAGGED
    return ("422", failure) if failure else ("500", BROKEN)


@dataclass(frozen=True, slots=True)
class Model:
    """The input rules of a model. ``choices`` lists the allowed values of optional fields."""

    kind: str
    choices: dict[str, tuple[Any, ...]]
    image_field: str = ""
    images_least: int = 0
    images_most: int = 0

    def image_urls(self, given: dict[str, Any]) -> list[str]:
        """Return the URLs of reference images."""
        return list(given.get(self.image_field) or []) if self.image_field else []

    def check(self, given: dict[str, Any]) -> str:
        """Return what is wrong with an input, or an empty string."""
        prompt = given.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            return "prompt is required"
        if len(prompt) > PROMPT_LONGEST:
            return f"The text length cannot exceed {PROMPT_LONGEST} characters"
        for name, values in self.choices.items():
            # The type counts as well: duration is "5", not 5.
            if name in given and given[name] not in values:
                return f"{name} is not within the range of allowed options"
        if not self.image_field:
            return ""
        return check_urls(self.image_field, given.get(self.image_field), self.images_least, self.images_most)


def _seconds(first: int, last: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(first, last + 1))


_SOUND = {"sound": (True, False)}
_PRO = {"aspect_ratio": IMAGE_RATIOS, "resolution": ("1K", "2K", "4K"), "output_format": FORMATS}
_BANANA = {"image_size": IMAGE_RATIOS, "output_format": FORMATS}
MODELS = {
    "google/nano-banana": Model("image", _BANANA),
    "google/nano-banana-edit": Model("image", _BANANA, "image_urls", 1, 10),
    "nano-banana-pro": Model("image", _PRO, "image_input", 0, 8),
    "nano-banana-2": Model("image", _PRO, "image_input", 0, 14),
    "kling-2.6/text-to-video": Model("video", {"aspect_ratio": VIDEO_RATIOS, "duration": ("5", "10"), **_SOUND}),
    "kling-2.6/image-to-video": Model("video", {"duration": ("5", "10"), **_SOUND}, "image_urls", 1, 1),
    "kling-3.0/video": Model(
        "video", {"aspect_ratio": VIDEO_RATIOS, "duration": _seconds(3, 15), "mode": ("std", "pro"), **_SOUND},
        "image_urls", 0, 2,
    ),
}  # fmt: skip


def read_create(_sandbox: Sandbox, exchange: Exchange) -> None:
    """Note model, prompt and reference of a submit."""
    content = body_of(exchange) or {}
    given = content.get("input")
    exchange.model = str(content.get("model", ""))
    exchange.prompt = str(given.get("prompt", "")) if isinstance(given, dict) else ""
    exchange.reference = reference_of(str(content.get("callBackUrl") or ""))


async def create(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Accept a task."""
    content = body_of(exchange)
    if content is None:
        return refuse(200, 422, "The request body is not valid JSON.")
    model = MODELS.get(exchange.model)
    if model is None:
        return refuse(200, 422, "The model name you specified is not supported. Please verify the model name.")
    given = content.get("input")
    if not isinstance(given, dict):
        return refuse(200, 422, "input cannot be null")
    if wrong := model.check(given):
        return refuse(200, 422, wrong)
    callback_url = str(content.get("callBackUrl") or "")
    task = sandbox.submit(
        exchange, FAMILY, model.kind, param=given, callback_url=callback_url, image_urls=model.image_urls(given)
    )
    return success({"taskId": task.id})


async def record_info(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Answer a query with the task's record."""
    task = find_task(sandbox, exchange, FAMILY)
    if not isinstance(task, Task):
        return task
    state = task.state(sandbox.now())
    if exchange.has_fault("backwards") or exchange.has_fault("running"):
        state = "generating"
    elif exchange.fault and exchange.fault.kind == "unknown_state":
        state = exchange.fault.value or "pondering"
    else:
        task.told_end = task.told_end or state in {"success", "fail"}
    return success(record(sandbox, task, state))


def record(sandbox: Sandbox, task: Task, state: str) -> dict[str, Any]:
    """Return the task in recordInfo's shape, with its results as JSON inside a string."""
    content: dict[str, Any] = {
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
        "updateTime": milliseconds(min(sandbox.now(), task.ends_at)),
    }
    if state == "success":
        urls = [] if task.ending == "empty" else [sandbox.files.current(sandbox, task)]
        content["resultJson"] = orjson.dumps({"resultUrls": urls}).decode()
    elif state == "fail":
        content["failCode"], content["failMsg"] = end_of(task.ending, task.failure)
    if state in {"success", "fail"}:
        content["costTime"] = milliseconds(task.seconds)
        content["completeTime"] = milliseconds(task.ends_at)
    return content


def callback(sandbox: Sandbox, task: Task) -> dict[str, Any]:
    """Return the body of a callback, which holds the same record as a query."""
    state = task.state(sandbox.now())
    if state == "fail":
        return {"code": 501, "msg": "Playground task failed.", "data": record(sandbox, task, state)}
    return {"code": 200, "msg": "Playground task completed successfully.", "data": record(sandbox, task, state)}


def read_download_url(sandbox: Sandbox, exchange: Exchange) -> None:
    """Note the task whose file is named."""
    url = (body_of(exchange) or {}).get("url")
    if isinstance(url, str) and (shared := sandbox.files.find(url)):
        exchange.about(shared.task)


async def download_url(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Answer with a URL that works for 20 minutes."""
    task = sandbox.tasks.get(exchange.task) if exchange.task else None
    if task is None:
        return refuse(200, 422, "The address is not of a file that was generated here.")
    return success(sandbox.files.share(sandbox, task, DOWNLOAD_LINK_SECONDS))


VEO_FAMILY = "veo"
RUNNING, DONE, FAILED, BLOCKED, UNKNOWN = 0, 1, 2, 3, 9
VEO_CHOICES: dict[str, tuple[Any, ...]] = {
    "model": ("veo3", "veo3_fast", "veo3_lite"),
    "aspectRatio": ("16:9", "9:16", "Auto"),
    "aspect_ratio": ("16:9", "9:16", "Auto"),
    "resolution": ("720p", "1080p", "4k"),
    "duration": (4, 6, 8),
    "generationType": ("TEXT_2_VIDEO", "FIRST_AND_LAST_FRAMES_2_VIDEO", "REFERENCE_2_VIDEO"),
}
VEO_IMAGES_MOST = 3


def read_veo(_sandbox: Sandbox, exchange: Exchange) -> None:
    """Note model, prompt and reference of a submit."""
    content = body_of(exchange) or {}
    exchange.model = str(content.get("model", "veo3_fast"))
    exchange.prompt = str(content.get("prompt", ""))
    exchange.reference = reference_of(str(content.get("callBackUrl") or ""))


async def create_veo(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Accept a clip."""
    content = body_of(exchange)
    if content is None:
        return refuse(200, 422, "The request body is not valid JSON.")
    if wrong := _check_veo(content):
        return refuse(200, 422, wrong)
    task = sandbox.submit(
        exchange,
        VEO_FAMILY,
        "video",
        prefix="veo_task_",
        param=content,
        callback_url=str(content.get("callBackUrl") or ""),
        image_urls=list(content.get("imageUrls") or []),
    )
    return success({"taskId": task.id})


async def veo_record_info(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Answer a query with the clip's record."""
    task = find_task(sandbox, exchange, VEO_FAMILY)
    if not isinstance(task, Task):
        return task
    flag = flag_of(task, sandbox.now())
    if exchange.has_fault("backwards") or exchange.has_fault("running"):
        flag = RUNNING
    elif exchange.fault and exchange.fault.kind == "unknown_state":
        flag = int(exchange.fault.value) if exchange.fault.value.isdecimal() else UNKNOWN
    else:
        task.told_end = task.told_end or flag != RUNNING
    return success(veo_record(sandbox, task, flag))


def flag_of(task: Task, now: float) -> int:
    """Return the successFlag: 0 while the task runs, 1 when it is done, 2 or 3 when it has failed."""
    state = task.state(now)
    if state == "success":
        return DONE
    if state == "fail":
        return BLOCKED if task.ending in {"blocked", "safety"} else FAILED
    return RUNNING


def veo_record(sandbox: Sandbox, task: Task, flag: int) -> dict[str, Any]:
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


def veo_callback(sandbox: Sandbox, task: Task) -> dict[str, Any]:
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


def _check_veo(content: dict[str, Any]) -> str:
    prompt = content.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        return "prompt is required"
    for name, values in VEO_CHOICES.items():
        if name in content and content[name] not in values:
            return f"Invalid {name}"
    return check_urls("imageUrls", content.get("imageUrls"), 0, VEO_IMAGES_MOST)


_read_job = partial(read_task_id, family=FAMILY)
_read_veo = partial(read_task_id, family=VEO_FAMILY)
ENDPOINTS = (
    Endpoint("POST", "/kie/api/v1/jobs/createTask", "kie", "submit", read_create, create, refuse, check_caller),
    Endpoint("GET", "/kie/api/v1/jobs/recordInfo", "kie", "query", _read_job, record_info, refuse, check_caller),
    Endpoint(
        "POST", "/kie/api/v1/common/download-url", "kie", "link", read_download_url, download_url, refuse, check_caller
    ),
    Endpoint("POST", "/kie/api/v1/veo/generate", "kie", "submit", read_veo, create_veo, refuse, check_caller),
    Endpoint("GET", "/kie/api/v1/veo/record-info", "kie", "query", _read_veo, veo_record_info, refuse, check_caller),
)
