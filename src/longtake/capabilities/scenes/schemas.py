"""Requests and responses of scenes, with the examples in /openapi.json, and how runs become responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from longtake.capabilities.scenes.queue import NOTHING, HeldBack, RunOutlook
from longtake.capabilities.scenes.runs import image_message
from longtake.capabilities.scenes.tables import Run, Scene
from longtake.clock import iso_timestamp
from longtake.services.assets import Addresses, Asset

RUN_ID = "019a8f6e-9c11-7a52-b0de-71c3a4f5e680"
ASSET_ID = "019a8f6f-0d37-7e09-a1c4-2b6f0c9d8e71"
IMAGE_URL = f"https://media.example.com/v1/assets/{ASSET_ID}/content?expires=1767269100&signature=…"
MOMENT = "2026-01-01T12:00:00.000000Z"
PROMPTS = ("a red fox leaves its den at dawn", "the fox crosses a frozen river", "the fox sleeps under a pine")

State = Literal["waiting", "queued", "processing", "completed", "failed", "cancelled"]
Status = Literal["created", "generating", "completed", "partial", "failed", "cancelled"]


class SceneBody(BaseModel):
    """One scene of a new run."""

    model_config = ConfigDict(extra="forbid")

    prompt: str = Field(max_length=50_000, description="What the image shows, in words.")


class RunBody(BaseModel):
    """A new run."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"title": "A fox's day", "scenes": [{"prompt": one} for one in PROMPTS]}]},
    )

    title: str | None = Field(default=None, max_length=200, description="For people.")
    model: str | None = Field(
        default=None,
        min_length=1,
        max_length=60,
        description="An image model that answers at once; by default the first.",
    )
    parameters: dict[str, Any] = Field(
        default_factory=dict, max_length=30, description="The model's own parameters, for all scenes."
    )
    scenes: list[SceneBody] = Field(max_length=100, description="3, 5, 7 or 10 scenes.")
    advance: bool = Field(default=False, strict=True, description="Queue all images at once.")


class AdvanceBody(BaseModel):
    """What to queue."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"failed": True}]})

    failed: bool = Field(default=False, strict=True, description="Also queue scenes that failed.")


class RegenerateBody(BaseModel):
    """How to generate a scene again."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"prompt": "the fox swims through a river in spring"}]}
    )

    prompt: str | None = Field(default=None, max_length=50_000, description="A new prompt; by default the same again.")


class ImageReason(BaseModel):
    """Why an image failed, or is tried again."""

    code: str
    message: str | None


class HeldBackView(BaseModel):
    """Why nothing starts now."""

    code: str
    message: str
    until: str | None = Field(description="When it resumes by itself; null if an operator must act.")


class SceneView(BaseModel):
    """A scene as it is now."""

    number: int
    prompt: str
    state: State
    attempt: int = Field(description="Tries so far, including the present one.")
    max_attempts: int | None = Field(description="The most tries; null before it is queued.")
    reason: ImageReason | None
    retry_at: str | None
    image_url: str | None = Field(description="The newest image; the address works for minutes.")
    thumbnail_url: str | None = Field(description="A JPEG of 960×540; the address works for minutes.")
    placeholder: str | None = Field(description="A tiny picture as a data: address.")
    asset_id: str | None
    queued_at: str | None
    started_at: str | None
    ended_at: str | None


class SceneCounts(BaseModel):
    """The number of scenes by state."""

    scenes: int
    waiting: int
    queued: int
    processing: int
    completed: int
    failed: int
    cancelled: int
    percent: int = Field(description="The share of scenes with an image.")


class RunCredits(BaseModel):
    """The credits of a run."""

    held: int = Field(description="For unfinished images.")
    charged: int = Field(description="For finished images.")


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
    total: SceneCounts
    credits: RunCredits


class RunAnswer(RunSummary):
    """A run as it is now."""

    model_config = ConfigDict(json_schema_extra={"examples": [RUN_EXAMPLE]})

    parameters: dict[str, Any]
    scenes: list[SceneView]
    estimated_end_at: str | None = Field(description="When the last image is likely to be finished; null if unknown.")
    held_back: HeldBackView | None = Field(description="Why all images wait, such as a daily quota.")
    request_id: str | None


class RunPage(BaseModel):
    """A page of runs."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"runs": [SUMMARY_EXAMPLE], "next": None}]})

    runs: list[RunSummary]
    next: str | None = Field(description="Pass it as `before` for the next page; null at the end.")


class AdvanceAnswer(BaseModel):
    """What an advance did."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"action": "images_queued", "queued": 3, "run": RUN_EXAMPLE}]}
    )

    action: Literal["images_queued", "images_in_progress", "run_completed", "nothing_to_queue"]
    queued: int
    run: RunAnswer


STATES = ("waiting", "queued", "processing", "completed", "failed", "cancelled")

Images = Mapping[str, tuple[Asset, Addresses]]


def show_run(run: Run, images: Images, outlook: RunOutlook = NOTHING) -> dict[str, Any]:
    """Return a run as all routes show it; the addresses are made for this response."""
    shown = [_show_scene(run, scene, images, outlook) for scene in run.scenes]
    return {
        **show_summary(run, outlook),
        "parameters": run.parameters,
        "scenes": shown,
        "estimated_end_at": iso_timestamp(outlook.ends.get(run.id)),
        "held_back": _show_held_back(outlook.held_back.get(run.id)),
        "request_id": run.request_id,
    }


def show_summary(run: Run, outlook: RunOutlook = NOTHING) -> dict[str, Any]:
    """Return a run as lists show it."""
    return {
        "id": run.id,
        "title": run.title,
        "model": run.model,
        "status": run.status,
        "created_at": iso_timestamp(run.created_at),
        "cancelled_at": iso_timestamp(run.cancelled_at),
        "total": _total(run, outlook),
        "credits": _credits(run),
    }


def _state(run: Run, scene: Scene, outlook: RunOutlook) -> str:
    """Return the scene's state. A scene of a cancelled run that was never queued is cancelled too."""
    return "cancelled" if run.cancelled_at is not None and scene.job is None else scene.state(outlook.waiting)


def _show_scene(run: Run, scene: Scene, images: Images, outlook: RunOutlook) -> dict[str, Any]:
    job, image = scene.job, scene.image
    asset, addresses = images.get(image.asset_id or "", (None, None)) if image is not None else (None, None)
    return {
        "number": scene.number,
        "prompt": scene.prompt,
        "state": _state(run, scene, outlook),
        "attempt": 0 if job is None else job.attempt,
        "max_attempts": None if job is None else job.max_attempts,
        "reason": None if job is None or job.error_code is None else {"code": job.error_code, "message": job.error},
        "retry_at": None if job is None else iso_timestamp(job.retry_at),
        "image_url": addresses and addresses.url,
        "thumbnail_url": addresses and addresses.thumbnail_url,
        "placeholder": asset and asset.placeholder,
        "asset_id": asset and asset.id,
        "queued_at": None if job is None else iso_timestamp(job.queued_at),
        "started_at": None if job is None else iso_timestamp(job.started_at),
        "ended_at": None if job is None else iso_timestamp(job.completed_at),
    }


def _total(run: Run, outlook: RunOutlook) -> dict[str, int]:
    states = [_state(run, scene, outlook) for scene in run.scenes]
    images = sum(scene.image is not None for scene in run.scenes)
    percent = 100 * images // max(len(states), 1)
    return {"scenes": len(states), **{name: states.count(name) for name in STATES}, "percent": percent}


def _credits(run: Run) -> dict[str, int]:
    jobs = [job for scene in run.scenes for job in scene.jobs]
    return {
        "held": sum(job.price for job in jobs if job.live),
        "charged": sum(job.price for job in jobs if job.status == "completed"),
    }


def _show_held_back(held: HeldBack | None) -> dict[str, Any] | None:
    if held is None:
        return None
    return {"code": held.code, "message": image_message(held.code), "until": iso_timestamp(held.until)}
