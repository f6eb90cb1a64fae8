"""What callers send and see: requests, answers and their examples for /openapi.json, and a task in that form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from longtake.capabilities.generation.outlook import NO_OUTLOOK, Estimate, Outlook
from longtake.capabilities.generation.tables import Task
from longtake.clock import iso_timestamp
from longtake.services.assets.schemas import ASSET_EXAMPLE, AssetView
from longtake.services.models import Model
from longtake.services.provider_calls import trouble_words

STATUS = Literal["pending", "running", "completed", "failed", "cancelled"]
TASK_ID = "019a8f6e-5d0c-7c41-9f53-0f6d1f2b7a10"
CONVERSATION_ID = "019a8f6e-7b32-7d10-8c4e-5a1be0c9d2f4"
MODEL_NAME = r"^[a-z0-9][a-z0-9._-]{0,59}$"
CALLBACK = {"code": 200, "msg": "success", "data": {"taskId": "5f1e…", "state": "success"}}
MOMENT = "2026-01-01T12:00:00.000000Z"


class GenerateBody(BaseModel):
    """What to generate."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"model": "nano-banana", "prompt": "a red fox in snow", "parameters": {"aspect_ratio": "16:9"}},
            ]
        },
    )

    model: str = Field(min_length=1, max_length=60, description="The model's name; GET /v1/models lists them.")
    prompt: str = Field(max_length=50_000, description="What the image or video shows, in words.")
    parameters: dict[str, Any] = Field(
        default_factory=dict,
        max_length=30,
        description="The model's parameters; those left out take their defaults.",
    )
    references: list[UUID] = Field(
        default_factory=list, max_length=16, description="Ids of reference images, uploaded to /v1/references before."
    )
    conversation_id: UUID | None = Field(
        default=None, description="The conversation that gets the message; without one no message is written."
    )
    wait_for_result: bool = Field(
        default=False,
        strict=True,
        description="Answer when the task has ended, at most after a minute; as `Prefer: wait=60`.",
    )


class TaskError(BaseModel):
    """Why the task has no result, or what it waits for."""

    code: str = Field(examples=["TIMEOUT"])
    message: str | None


class TaskCredits(BaseModel):
    """What the task costs, and whether that is held, charged or given back."""

    price: int
    refunded: int = Field(description="What was charged and given back later; 0 for credits that were only held.")
    state: Literal["held", "captured", "released", "refunded"] = Field(
        description="A task that fails or is cancelled is never charged: its credits are `released`."
    )


class TaskEstimate(BaseModel):
    """How far the task probably is; null where that is unknown."""

    fraction: float | None = Field(description="0 to 1; 1 only when it has ended.")
    seconds_left: float | None
    based_on: Literal["provider", "history"] | None
    late: bool = Field(description="It takes longer than 95 % of the recent tasks of its model.")


class TaskQueue(BaseModel):
    """The task's place among those that wait for the same provider."""

    position: int
    ahead: int
    more: bool = Field(description="`ahead` is a lower bound; there may be more.")


class TaskRetry(BaseModel):
    """When the task is tried again, and what failed."""

    attempt: int = Field(description="The number of the next attempt.")
    of: int | None = Field(description="The number of the last attempt; null when it is tried until the deadline.")
    at: str
    code: str
    message: str


class ModelEstimate(BaseModel):
    """How long the model took recently."""

    median_seconds: float | None
    p95_seconds: float | None
    runs: int


TASK_EXAMPLE: dict[str, Any] = {
    "id": TASK_ID, "status": "running", "type": "image", "model": "nano-banana", "prompt": "a red fox in snow",
    "parameters": {"aspect_ratio": "16:9"}, "references": [], "conversation_id": CONVERSATION_ID,
    "message_id": "019a8f6e-5d0c-7c41-9f53-0f6d1f2b7a11", "progress": 0.4,
    "estimate": {"fraction": 0.4, "seconds_left": 8.1, "based_on": "provider", "late": False},
    "usual": {"median_seconds": 14.2, "p95_seconds": 31.0, "runs": 120}, "queue": None, "retry": None,
    "needs_review": False, "trouble": None,
    "results": [], "error": None, "credits": {"price": 4, "refunded": 0, "state": "held"}, "poll_count": 3,
    "last_polled_at": MOMENT, "created_at": MOMENT, "started_at": MOMENT, "deadline_at": "2026-01-01T12:10:00Z",
    "ended_at": None, "retry_of": None, "request_id": "fox-1",
    "urls": {"self": f"/v1/tasks/{TASK_ID}", "cancel": f"/v1/tasks/{TASK_ID}/cancel"},
}  # fmt: skip
COMPLETED_EXAMPLE: dict[str, Any] = {
    **TASK_EXAMPLE,
    "status": "completed",
    "progress": 1.0,
    "estimate": None,
    "usual": None,
    "results": [{**ASSET_EXAMPLE, "task_id": TASK_ID, "role": "result"}],
    "credits": {"price": 4, "refunded": 0, "state": "captured"},
    "ended_at": "2026-01-01T12:00:14.207310Z",
}


class TaskAnswer(BaseModel):
    """A task, the same everywhere. A completed one has its files in `results`."""

    model_config = ConfigDict(json_schema_extra={"examples": [TASK_EXAMPLE, COMPLETED_EXAMPLE]})

    id: str = Field(examples=[TASK_ID])
    status: STATUS
    type: Literal["image", "video"]
    model: str = Field(examples=["nano-banana"])
    prompt: str
    parameters: dict[str, Any]
    references: list[str]
    conversation_id: str | None
    message_id: str | None
    progress: float | None = Field(description="0 to 1 where the provider reports it.")
    estimate: TaskEstimate | None = Field(description="Null once it has ended.")
    usual: ModelEstimate | None = Field(description="How long its model took recently; null once it has ended.")
    queue: TaskQueue | None = Field(description="While it waits for its turn at the provider.")
    retry: TaskRetry | None = Field(description="While it waits to be tried again.")
    needs_review: bool = Field(description="The provider's answer was lost; operators were alerted.")
    trouble: TaskError | None = Field(description="What the task waits for, while something is wrong.")
    results: list[AssetView]
    error: TaskError | None
    credits: TaskCredits
    poll_count: int
    last_polled_at: str | None
    created_at: str = Field(examples=[MOMENT])
    started_at: str | None
    deadline_at: str
    ended_at: str | None
    retry_of: str | None
    request_id: str | None
    urls: dict[str, str]


class TaskPage(BaseModel):
    """Tasks, newest first. `next` is the cursor for the page after this one; null at the end."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"tasks": [TASK_EXAMPLE], "next": TASK_ID}]})

    tasks: list[TaskAnswer]
    next: str | None


class PendingTasks(BaseModel):
    """Unfinished tasks, oldest first; `more` when there are more than these."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"tasks": [TASK_EXAMPLE], "more": False}]})

    tasks: list[TaskAnswer]
    more: bool


class ModelParameter(BaseModel):
    """One parameter of a model, with its limits."""

    kind: Literal["choice", "whole", "number", "yes_no", "text"]
    meaning: str
    default: Any
    choices: list[Any]
    least: float | None
    most: float | None


_MODEL: dict[str, Any] = {
    "name": "nano-banana", "title": "Nano Banana", "type": "image", "provider": "kie", "available": True, "credits": 4,
    "deadline_seconds": 600, "lane": "kie.submit", "prompt_limit": 5000, "references": {"least": 0, "most": 0},
    "parameters": {
        "aspect_ratio": {
            "kind": "choice", "meaning": "Width to height.", "default": "1:1", "choices": ["1:1", "16:9"],
            "least": None, "most": None,
        }
    },
    "estimate": {"median_seconds": 14.2, "p95_seconds": 31.0, "runs": 120},
}  # fmt: skip


class ModelAnswer(BaseModel):
    """A model with its parameters, its price and how long it takes."""

    model_config = ConfigDict(json_schema_extra={"examples": [_MODEL]})

    name: str = Field(examples=["nano-banana"])
    title: str
    type: Literal["image", "video"]
    provider: str
    available: bool = Field(description="Whether its provider has a key here.")
    credits: int
    deadline_seconds: float
    lane: str
    prompt_limit: int
    references: dict[str, int]
    parameters: dict[str, ModelParameter]
    estimate: ModelEstimate


class ModelList(BaseModel):
    """All models."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"models": [_MODEL]}]})

    models: list[ModelAnswer]


class Received(BaseModel):
    """A callback was received. The answer does not say what followed from it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"received": True}]})

    received: bool = True


#: What is shown as it stands in the task's row: the request, and its moments.
REQUESTED = ("id", "status", "type", "model", "prompt", "parameters", "references", "conversation_id")
MOMENTS = ("last_polled_at", "created_at", "started_at", "deadline_at", "ended_at")


def show_task(task: Task, results: Sequence[Mapping[str, Any]] = (), outlook: Outlook = NO_OUTLOOK) -> dict[str, Any]:
    """Return the task as ``TaskAnswer``, the one form in which every route shows it."""
    return {
        **{name: getattr(task, name) for name in REQUESTED},
        "message_id": task.completed_message_id or task.placeholder_message_id,
        "progress": task.progress,
        **asdict(outlook),
        "needs_review": task.needs_review,
        "trouble": _trouble(task),
        "results": list(results),
        "error": {"code": task.fail_code, "message": task.error} if task.fail_code else None,
        "credits": _credits(task),
        "poll_count": task.poll_count,
        **{name: iso_timestamp(getattr(task, name)) for name in MOMENTS},
        "retry_of": task.retry_of,
        "request_id": task.request_id,
        "urls": {"self": f"/v1/tasks/{task.id}", "cancel": f"/v1/tasks/{task.id}/cancel"},
    }


def show_model(model: Model, available: bool, lane: str, estimate: Estimate) -> dict[str, Any]:  # noqa: FBT001 - a value to show
    """Return the model as ``ModelAnswer``."""
    return {
        "name": model.name,
        "title": model.title,
        "type": model.type,
        "provider": model.provider,
        "available": available,
        "credits": model.credits,
        "deadline_seconds": model.deadline,
        "lane": lane,
        "prompt_limit": model.prompt_limit,
        "references": {"least": model.references[0], "most": model.references[1]},
        "parameters": {
            name: one.model_dump(include={"kind", "meaning", "default", "choices", "least", "most"})
            for name, one in model.parameters.items()
        },
        "estimate": estimate,
    }


def _trouble(task: Task) -> dict[str, Any] | None:
    if not task.unfinished or task.trouble is None:
        return None
    code = task.trouble.get("code", "")
    return {"code": code, "message": trouble_words(code)}


def _credits(task: Task) -> dict[str, Any]:
    """Return the task's price and what became of it. The column `credits_refunded` also counts released credits."""
    if task.unfinished:
        state = "held"
    elif task.status != "completed":
        state = "released"
    else:
        state = "refunded" if task.credits_refunded else "captured"
    return {"price": task.price, "refunded": task.credits_refunded if state == "refunded" else 0, "state": state}
