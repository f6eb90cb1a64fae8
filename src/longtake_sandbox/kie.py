"""KIE's APIs: createTask, recordInfo and download-url for jobs; generate and record-info for Veo.

Both have envelopes with a code inside HTTP 200, bearer keys and limits. Veo has a flat request body, and a flag instead
of a state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from longtake_sandbox.calls import Endpoint, Exchange, Refused, json_response
from longtake_sandbox.tasks import ENDED, Task

if TYPE_CHECKING:
    from aiohttp import web

    from longtake_sandbox.faults import Fault
    from longtake_sandbox.sandbox import Sandbox

FAMILY = "jobs"
DOWNLOAD_LINK_SECONDS = 20 * 60.0
FLAGGED = "Your prompt was flagged by Website as violating content policies."
NOT_JSON = "The request body is not valid JSON."
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
    options = sandbox.options
    name, limit = ("submit", options.submit_limit) if exchange.route == "submit" else ("query", options.query_limit)
    if not sandbox.limiter.admit(f"{name} {key}", limit, sandbox.now()):
        return refuse(429, 429, "Your call frequency is too high. Please try again later.")
    return None


def milliseconds(seconds: float) -> int:
    """Return a time in KIE's unit."""
    return int(seconds * 1000)


def read_task_id(sandbox: Sandbox, exchange: Exchange, *, family: str) -> None:
    """Note the task that a query names."""
    exchange.task = exchange.request.query.get("taskId", "")
    exchange.about(sandbox.tasks.get(exchange.task, family))


def report_state(sandbox: Sandbox, exchange: Exchange) -> tuple[Task, str]:
    """Return the task of a query and the state to report, which is empty if a fault asks for an undocumented one."""
    if not exchange.task:
        raise Refused(200, 422, "taskId is required")
    task = exchange.subject
    if task is None:
        raise Refused(200, 404, "The task does not exist.")
    if exchange.has_fault("backwards") or exchange.has_fault("running"):
        return task, "generating"
    if exchange.has_fault("unknown_state"):
        return task, ""
    state = task.state(sandbox.now())
    task.told_end = task.told_end or state in ENDED
    return task, state


def result_urls(sandbox: Sandbox, task: Task) -> list[str]:
    """Return the URLs of a task's results."""
    return [] if task.ending == "empty" else [sandbox.files.current(sandbox, task)]


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
    prompt_longest: float = PROMPT_LONGEST
    wrong_choice: str = "{} is not within the range of allowed options"

    def check(self, given: dict[str, Any]) -> list[str]:
        """Refuse an invalid input; return the URLs of the reference images of a valid one."""
        prompt = given.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            raise Refused(200, 422, "prompt is required")
        if len(prompt) > self.prompt_longest:
            raise Refused(200, 422, f"The text length cannot exceed {self.prompt_longest} characters")
        for name, values in self.choices.items():
            # The type counts as well: duration is "5", not 5.
            if name in given and given[name] not in values:
                raise Refused(200, 422, self.wrong_choice.format(name))
        value = given.get(self.image_field) if self.image_field else None
        urls = [] if value is None else value
        if not isinstance(urls, list) or not all(isinstance(url, str) for url in urls):
            raise Refused(200, 422, f"{self.image_field} must be an array of strings")
        if not self.images_least <= len(urls) <= self.images_most:
            raise Refused(200, 422, f"{self.image_field} must have {self.images_least} to {self.images_most} items")
        if not all(url.startswith(("http://", "https://")) for url in urls):
            raise Refused(200, 422, f"{self.image_field} file type not supported or not an address")
        return urls


SECONDS_3_TO_15 = tuple(map(str, range(3, 16)))
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
        "video", {"aspect_ratio": VIDEO_RATIOS, "duration": SECONDS_3_TO_15, "mode": ("std", "pro"), **_SOUND},
        "image_urls", 0, 2,
    ),
}  # fmt: skip


def read_submit(_sandbox: Sandbox, exchange: Exchange) -> None:
    """Note model, prompt and callback address of a submit."""
    content = exchange.body or {}
    exchange.model = str(content.get("model", ""))
    exchange.callback_url = str(content.get("callBackUrl") or "")
    given = content.get("input")
    exchange.prompt = str(given.get("prompt", "")) if isinstance(given, dict) else ""


async def create(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Accept a task."""
    if exchange.body is None:
        raise Refused(200, 422, NOT_JSON)
    model = MODELS.get(exchange.model)
    if model is None:
        raise Refused(200, 422, "The model name you specified is not supported. Please verify the model name.")
    given = exchange.body.get("input")
    if not isinstance(given, dict):
        raise Refused(200, 422, "input cannot be null")
    return accept(sandbox, exchange, FAMILY, model, given)


def accept(
    sandbox: Sandbox, exchange: Exchange, family: str, model: Model, given: dict[str, Any], prefix: str = ""
) -> web.Response:
    """Check the input and answer with the id of a new task."""
    image_urls = model.check(given)
    task = sandbox.submit(exchange, family, model.kind, prefix=prefix, param=given, image_urls=image_urls)
    return success({"taskId": task.id})


async def record_info(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Answer a query with the task's record."""
    task, state = report_state(sandbox, exchange)
    return success(record(sandbox, task, state or exchange.fault_value or "pondering"))


def record(sandbox: Sandbox, task: Task, state: str) -> dict[str, Any]:
    """Return the task in recordInfo's shape, with its results as JSON inside a string."""
    ended = state in ENDED
    code, message = end_of(task.ending, task.failure) if state == "fail" else (None, None)
    results = orjson.dumps({"resultUrls": result_urls(sandbox, task)}).decode() if state == "success" else ""
    return {
        "taskId": task.id,
        "model": task.model,
        "state": state,
        "param": orjson.dumps({"model": task.model, "input": task.param, "callBackUrl": task.callback_url}).decode(),
        "resultJson": results,
        "failCode": code,
        "failMsg": message,
        "costTime": milliseconds(task.seconds) if ended else None,
        "completeTime": milliseconds(task.ends_at) if ended else None,
        "createTime": milliseconds(task.created),
        "updateTime": milliseconds(min(sandbox.now(), task.ends_at)),
    }


def callback(sandbox: Sandbox, task: Task) -> dict[str, Any]:
    """Return the body of a callback, which holds the same record as a query."""
    state = task.state(sandbox.now())
    if state == "fail":
        return {"code": 501, "msg": "Playground task failed.", "data": record(sandbox, task, state)}
    return {"code": 200, "msg": "Playground task completed successfully.", "data": record(sandbox, task, state)}


def read_download_url(sandbox: Sandbox, exchange: Exchange) -> None:
    """Note the task whose file is named."""
    url = (exchange.body or {}).get("url")
    if isinstance(url, str) and (shared := sandbox.files.find(url)):
        exchange.about(shared.task)


async def download_url(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Answer with a URL that works for 20 minutes."""
    if exchange.subject is None:
        raise Refused(200, 422, "The address is not of a file that was generated here.")
    return success(sandbox.files.share(sandbox, exchange.subject, DOWNLOAD_LINK_SECONDS))


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
VEO = Model("video", VEO_CHOICES, "imageUrls", 0, 3, prompt_longest=math.inf, wrong_choice="Invalid {}")


def read_veo(sandbox: Sandbox, exchange: Exchange) -> None:
    """Note model, prompt and callback address of a submit."""
    read_submit(sandbox, exchange)
    content = exchange.body or {}
    exchange.model, exchange.prompt = str(content.get("model", "veo3_fast")), str(content.get("prompt", ""))


async def create_veo(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Accept a clip."""
    if exchange.body is None:
        raise Refused(200, 422, NOT_JSON)
    return accept(sandbox, exchange, VEO_FAMILY, VEO, exchange.body, prefix="veo_task_")


async def veo_record_info(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Answer a query with the clip's record."""
    task, state = report_state(sandbox, exchange)
    failed = BLOCKED if task.ending in {"blocked", "safety"} else FAILED
    flag = {"success": DONE, "fail": failed}.get(state, RUNNING)
    if not state:
        flag = int(exchange.fault_value) if exchange.fault_value.isdecimal() else UNKNOWN
    return success(veo_record(sandbox, task, flag))


def veo_record(sandbox: Sandbox, task: Task, flag: int) -> dict[str, Any]:
    """Return the task in record-info's shape, with its results as an array."""
    code, message = end_of(task.ending, task.failure) if flag in {FAILED, BLOCKED} else (None, None)
    return {
        "taskId": task.id,
        "paramJson": orjson.dumps(task.param).decode(),
        "createTime": milliseconds(task.created),
        "completeTime": milliseconds(task.ends_at) if flag in {DONE, FAILED, BLOCKED} else None,
        "response": {"taskId": task.id, **_results(sandbox, task)} if flag == DONE else None,
        "successFlag": flag,
        "errorCode": code and int(code),
        "errorMessage": message,
        "fallbackFlag": False,
    }


def veo_callback(sandbox: Sandbox, task: Task) -> dict[str, Any]:
    """Return the body of a callback."""
    if task.state(sandbox.now()) == "fail":
        code, message = end_of(task.ending, task.failure)
        return {"code": int(code), "msg": message, "data": {"taskId": task.id, "fallbackFlag": False}}
    info = _results(sandbox, task) if task.ended(sandbox.now()) else {}
    data = {"taskId": task.id, "info": info, "fallbackFlag": False}
    return {"code": 200, "msg": "Veo video generated successfully.", "data": data}


def _results(sandbox: Sandbox, task: Task) -> dict[str, Any]:
    resolution = str(task.param.get("resolution", "720p"))
    return {"resultUrls": result_urls(sandbox, task), "originUrls": [], "resolution": resolution}


_read_job = partial(read_task_id, family=FAMILY)
_read_clip = partial(read_task_id, family=VEO_FAMILY)
_endpoint = partial(Endpoint, provider="kie", refuse=refuse, check=check_caller)
ENDPOINTS = (
    _endpoint("POST", "/kie/api/v1/jobs/createTask", "submit", create, read_submit),
    _endpoint("GET", "/kie/api/v1/jobs/recordInfo", "query", record_info, _read_job),
    _endpoint("POST", "/kie/api/v1/common/download-url", "link", download_url, read_download_url),
    _endpoint("POST", "/kie/api/v1/veo/generate", "submit", create_veo, read_veo),
    _endpoint("GET", "/kie/api/v1/veo/record-info", "query", veo_record_info, _read_clip),
)
