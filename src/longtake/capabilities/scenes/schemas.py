"""Requests and answers of scenes as HTTP sees them, with examples; /openapi.json is made of these."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

RUN_ID = "019a8f6e-9c11-7a52-b0de-71c3a4f5e680"
ASSET_ID = "019a8f6f-0d37-7e09-a1c4-2b6f0c9d8e71"
IMAGE_URL = f"https://media.example.com/v1/assets/{ASSET_ID}/content?expires=1767269100&signature=…"
MOMENT = "2026-01-01T12:00:00.000000Z"
PROMPTS = ("a red fox leaves its den at dawn", "the fox crosses a frozen river", "the fox sleeps under a pine")

State = Literal["waiting", "queued", "processing", "completed", "failed", "cancelled"]
Status = Literal["created", "generating", "completed", "partial", "failed", "cancelled"]


class SceneBody(BaseModel):
    """One scene of a run to be."""

    model_config = ConfigDict(extra="forbid")

    prompt: str = Field(max_length=50_000, description="What is to be seen, in words.")


class RunBody(BaseModel):
    """A run to be."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"title": "A fox's day", "scenes": [{"prompt": one} for one in PROMPTS]}]},
    )

    title: str | None = Field(default=None, max_length=200, description="For people.")
    model: str | None = Field(
        default=None, min_length=1, max_length=60, description="An image model that answers at once; else the first."
    )
    parameters: dict[str, Any] = Field(
        default_factory=dict, max_length=30, description="The model's own parameters, for all scenes."
    )
    scenes: list[SceneBody] = Field(max_length=100, description="3, 5, 7 or 10 of them.")
    advance: bool = Field(default=False, strict=True, description="Queue all images at once.")


class AdvanceBody(BaseModel):
    """What to queue."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"failed": True}]})

    failed: bool = Field(default=False, strict=True, description="Also scenes that failed before.")


class RegenerateBody(BaseModel):
    """How to make a scene again."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"prompt": "the fox swims through a river in spring"}]}
    )

    prompt: str | None = Field(default=None, max_length=50_000, description="Other words for it; else the same again.")


class Reason(BaseModel):
    """Why an image failed, or why it is tried again."""

    code: str
    message: str | None


class HeldBackView(BaseModel):
    """Why nothing starts now."""

    code: str
    message: str
    until: str | None = Field(description="When it goes on by itself; null where a person has to see to it.")


class SceneView(BaseModel):
    """A scene as it is now."""

    number: int
    prompt: str
    state: State
    attempt: int = Field(description="Tries so far, the present one among them.")
    max_attempts: int | None = Field(description="The last try there is; null before it is queued.")
    reason: Reason | None
    retry_at: str | None
    image_url: str | None = Field(description="The newest image there is; works for minutes.")
    thumbnail_url: str | None = Field(description="A JPEG of 960×540; works for minutes.")
    placeholder: str | None = Field(description="A tiny picture as a data: address.")
    asset_id: str | None
    queued_at: str | None
    started_at: str | None
    ended_at: str | None


class Total(BaseModel):
    """All scenes together, by state."""

    scenes: int
    waiting: int
    queued: int
    processing: int
    completed: int
    failed: int
    cancelled: int
    percent: int = Field(description="How many of a hundred scenes have an image.")


class RunCredits(BaseModel):
    """What it costs."""

    held: int = Field(description="For images under way.")
    charged: int = Field(description="For images that were made.")


_SCENES: list[dict[str, Any]] = [
    {
        "number": number, "prompt": prompt, "state": state, "attempt": attempt, "max_attempts": 3, "reason": None,
        "retry_at": None, "image_url": url, "thumbnail_url": None, "placeholder": None, "asset_id": asset,
        "queued_at": MOMENT, "started_at": MOMENT if attempt else None, "ended_at": MOMENT if asset else None,
    }
    for number, prompt, state, attempt, url, asset in (
        (1, PROMPTS[0], "completed", 1, IMAGE_URL, ASSET_ID),
        (2, PROMPTS[1], "processing", 1, None, None),
        (3, PROMPTS[2], "queued", 0, None, None),
    )
]  # fmt: skip
SUMMARY_EXAMPLE: dict[str, Any] = {
    "id": RUN_ID, "title": "A fox's day", "model": "gemini-flash-image", "status": "generating", "created_at": MOMENT,
    "cancelled_at": None,
    "total": {
        "scenes": 3, "waiting": 0, "queued": 1, "processing": 1, "completed": 1, "failed": 0, "cancelled": 0,
        "percent": 33,
    },
    "credits": {"held": 10, "charged": 5},
}  # fmt: skip
RUN_EXAMPLE: dict[str, Any] = {
    **SUMMARY_EXAMPLE, "parameters": {"aspect_ratio": "1:1", "resolution": "1K"}, "scenes": _SCENES,
    "estimated_end_at": "2026-01-01T12:00:21.000000Z", "held_back": None, "request_id": "fox-1",
}  # fmt: skip


class RunSummary(BaseModel):
    """A run as lists show it."""

    id: str
    title: str | None
    model: str
    status: Status
    created_at: str
    cancelled_at: str | None
    total: Total
    credits: RunCredits


class RunAnswer(RunSummary):
    """A run as it is now."""

    model_config = ConfigDict(json_schema_extra={"examples": [RUN_EXAMPLE]})

    parameters: dict[str, Any]
    scenes: list[SceneView]
    estimated_end_at: str | None = Field(description="When the last image is likely to be there; null if unknown.")
    held_back: HeldBackView | None = Field(description="What keeps all images waiting, such as a quota of the day.")
    request_id: str | None


class RunPage(BaseModel):
    """A page of runs."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"runs": [SUMMARY_EXAMPLE], "next": None}]})

    runs: list[RunSummary]
    next: str | None = Field(description="What `before` has to be for the page after; null at the end.")


class Advance(BaseModel):
    """What an advance did."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"action": "images_queued", "queued": 3, "run": RUN_EXAMPLE}]}
    )

    action: Literal["images_queued", "images_in_progress", "run_completed", "nothing_to_queue"]
    queued: int
    run: RunAnswer
