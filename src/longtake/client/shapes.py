"""What the server answers, in the words of the HTTP API. Further members may come with a newer server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypedDict


class Asset(TypedDict):
    """A media file: a result, a reference image, or one that was brought in. Addresses work for minutes."""

    id: str
    task_id: str | None
    role: str
    kind: Literal["image", "video"]
    title: str | None
    position: int
    url: str | None
    save_state: Literal["none", "pending", "success", "failed", "expired"]
    save_error: str | None
    save_phase: Literal["downloading", "uploading"] | None
    bytes_done: int | None
    content_type: str | None
    size: int | None
    checksum: str | None
    width: int | None
    height: int | None
    duration_seconds: float | None
    thumbnail_state: Literal["none", "pending", "processing", "completed", "failed"]
    thumbnail_error: str | None
    thumbnail_url: str | None
    placeholder: str | None
    preview_url: str | None


class AssetPage(TypedDict):
    """Assets, newest first; `next` is the `before` of the page after."""

    assets: list[Asset]
    next: str | None


class TaskFailure(TypedDict):
    """Why a task has no result, or what keeps it waiting."""

    code: str
    message: str | None


class Estimate(TypedDict):
    """How far a task is, and on what that is based."""

    fraction: float | None
    seconds_left: float | None
    based_on: Literal["provider", "history"] | None
    late: bool


class QueuePlace(TypedDict):
    """Where a task waits; `more`: at least so many are ahead."""

    position: int
    ahead: int
    more: bool


class NextTry(TypedDict):
    """When a task is tried again, and why."""

    attempt: int
    of: int
    at: str
    code: str
    message: str


class Usual(TypedDict):
    """How long the model took lately."""

    median_seconds: float | None
    p95_seconds: float | None
    runs: int


class Price(TypedDict):
    """What a task costs, and what became of that."""

    price: int
    refunded: int
    state: Literal["held", "captured", "released", "refunded"]


class Task(TypedDict):
    """A task. `ended_at` is None until it has ended; a completed one has its files in `results`."""

    id: str
    status: Literal["pending", "running", "completed", "failed", "cancelled"]
    type: Literal["image", "video"]
    model: str
    prompt: str
    parameters: dict[str, Any]
    references: list[str]
    conversation_id: str | None
    progress: float | None
    needs_review: bool
    trouble: TaskFailure | None
    results: list[Asset]
    error: TaskFailure | None
    credits: Price
    created_at: str
    started_at: str | None
    deadline_at: str
    ended_at: str | None
    retry_of: str | None
    estimate: NotRequired[Estimate | None]
    queue: NotRequired[QueuePlace | None]
    retry: NotRequired[NextTry | None]
    usual: NotRequired[Usual | None]


class TaskPage(TypedDict):
    """Tasks, newest first; `next` is the `before` of the page after."""

    tasks: list[Task]
    next: str | None


class Model(TypedDict):
    """What can be made, what it takes and costs."""

    name: str
    title: str
    type: Literal["image", "video"]
    provider: str
    available: bool
    credits: int
    references: dict[str, int]
    parameters: dict[str, Any]


class Me(TypedDict):
    """Whose a token or key is, and what it may do."""

    user_id: str
    role: str
    scopes: list[str]


class Balance(TypedDict):
    """What can be spent, and what tasks under way hold."""

    available: int
    held: int


class Snapshot(TypedDict):
    """Everything a user sees, at one moment; the events after `cursor` bring the rest."""

    cursor: str
    at: str
    user_id: str
    tasks: list[Task]
    tasks_more: bool
    recent: list[Task]
    conversations: list[dict[str, Any]]
    unread: int
    credits: Balance


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. `ready` begins every connection; `reset` says that events were missed: look anew."""

    type: str
    cursor: str | None = None
    at: str | None = None
    subject: str | None = None
    data: dict[str, Any] = field(default_factory=dict)
