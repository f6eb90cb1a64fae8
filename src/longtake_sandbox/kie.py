"""What KIE's two APIs have in common: envelopes with a code inside HTTP 200, bearer keys, limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from longtake_sandbox.exchange import UNREADABLE, Endpoint, Exchange, json_response
from longtake_sandbox.tasks import Task, reference_of

if TYPE_CHECKING:
    from aiohttp import web

    from longtake_sandbox.faults import Fault
    from longtake_sandbox.sandbox import Box

FLAGGED = "Your prompt was flagged by Website as violating content policies."
BROKEN = "Internal Error, Please try again later."


def success(data: Any) -> web.Response:
    """Answer with data."""
    return json_response({"code": 200, "msg": "success", "data": data})


def refuse(status: int, code: int, message: str, fault: Fault | None = None) -> web.Response:  # noqa: ARG001
    """Answer with an error in KIE's envelope."""
    return json_response({"code": code, "msg": message, "data": None}, status)


def trouble_with_caller(box: Box, exchange: Exchange) -> web.Response | None:
    """Refuse a call without a good key, or one too many."""
    request = exchange.asked
    key = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
    if not box.accepts_key(key):
        return refuse(200, 401, "You do not have access permissions")
    if exchange.route == "submit":
        admitted = box.submits.admit(key, box.options.submit_limit, box.now())
    else:
        admitted = box.queries.admit(key, box.options.query_limit, box.now())
    if not admitted:
        return refuse(429, 429, "Your call frequency is too high. Please try again later.")
    return None


def body_of(exchange: Exchange) -> dict[str, Any] | None:
    """Return the JSON object that was posted, or None."""
    content = exchange.body
    return content if content is not UNREADABLE and isinstance(content, dict) else None


def milliseconds(moment: float) -> int:
    """Return a time as KIE writes it."""
    return int(moment * 1000)


def trouble_with_urls(name: str, value: Any, least: int, most: int) -> str:
    """Say what is wrong with a list of image addresses; empty if nothing."""
    if value is None:
        value = []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        return f"{name} must be an array of strings"
    if not least <= len(value) <= most:
        return f"{name} must have {least} to {most} items"
    if not all(one.startswith(("http://", "https://")) for one in value):
        return f"{name} file type not supported or not an address"
    return ""


def call_about_task(box: Box, exchange: Exchange, family: str) -> None:
    """Note the task that a query names."""
    exchange.task = exchange.asked.query.get("taskId", "")
    if task := box.tasks.get(exchange.task, family):
        exchange.about(task)


def end_of(ending: str, failure: str) -> tuple[str, str]:
    """Return the code and the sentence of a failure."""
    if ending in {"blocked", "safety"}:
        return "400", FLAGGED
    return ("422", failure) if failure else ("500", BROKEN)


PROMPT_LONGEST = 20_000
IMAGE_RATIOS = ("1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9", "auto")
VIDEO_RATIOS = ("1:1", "9:16", "16:9")
FORMATS = ("png", "jpeg", "jpg")


@dataclass(frozen=True, slots=True)
class Model:
    """A model's rules. ``choices`` are fields that, if they are there, must have one of some values."""

    kind: str
    choices: dict[str, tuple[Any, ...]]
    image_field: str = ""
    images_least: int = 0
    images_most: int = 0

    def image_urls(self, given: dict[str, Any]) -> list[str]:
        """Return the addresses of reference images."""
        return list(given.get(self.image_field) or []) if self.image_field else []

    def trouble(self, given: dict[str, Any]) -> str:
        """Say what is wrong with an input; empty if nothing."""
        prompt = given.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            return "prompt is required"
        if len(prompt) > PROMPT_LONGEST:
            return f"The text length cannot exceed {PROMPT_LONGEST} characters"
        for name, values in self.choices.items():
            # A number where a text belongs is no choice either: duration is "5", not 5.
            if name in given and given[name] not in values:
                return f"{name} is not within the range of allowed options"
        if not self.image_field:
            return ""
        return trouble_with_urls(self.image_field, given.get(self.image_field), self.images_least, self.images_most)


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
