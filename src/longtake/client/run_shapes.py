"""Runs of scenes as the server tells of them."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class SceneReason(TypedDict):
    """Why an image failed, or why it is tried again."""

    code: str
    message: str | None


class Scene(TypedDict):
    """One scene of a run. Addresses work for minutes."""

    number: int
    prompt: str
    state: Literal["waiting", "queued", "processing", "completed", "failed", "cancelled"]
    attempt: int
    max_attempts: int | None
    reason: SceneReason | None
    retry_at: str | None
    image_url: str | None
    thumbnail_url: str | None
    placeholder: str | None
    asset_id: str | None
    queued_at: str | None
    started_at: str | None
    ended_at: str | None


class RunTotal(TypedDict):
    """All scenes together, by state."""

    scenes: int
    waiting: int
    queued: int
    processing: int
    completed: int
    failed: int
    cancelled: int
    percent: int


class HeldBack(TypedDict):
    """Why nothing starts now, and until when; None where a person has to see to it."""

    code: str
    message: str
    until: str | None


class RunSummary(TypedDict):
    """A run as lists show it."""

    id: str
    title: str | None
    model: str
    status: Literal["created", "generating", "completed", "partial", "failed", "cancelled"]
    created_at: str
    cancelled_at: str | None
    total: RunTotal
    credits: dict[str, int]


class Run(RunSummary):
    """A run with each of its scenes."""

    parameters: dict[str, Any]
    scenes: list[Scene]
    estimated_end_at: str | None
    held_back: HeldBack | None
    request_id: str | None


class RunPage(TypedDict):
    """Runs, newest first; `next` is the `before` of the page after."""

    runs: list[RunSummary]
    next: str | None


class Advanced(TypedDict):
    """What an advance did, and the run after it."""

    action: Literal["images_queued", "images_in_progress", "run_completed", "nothing_to_queue"]
    queued: int
    run: Run
