"""The server's answers, with the names of the HTTP API. A newer server may add members."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypedDict


class Asset(TypedDict):
    """A media file: a result, a reference image, or an imported file. Its addresses work for minutes."""

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
    """Why a task has no result, or why it is waiting."""

    code: str
    message: str | None


class Estimate(TypedDict):
    """How far a task is, and what the estimate is based on."""

    fraction: float | None
    seconds_left: float | None
    based_on: Literal["provider", "history"] | None
    late: bool


class QueuePlace(TypedDict):
    """A task's place in the queue; with `more`, `ahead` is a lower bound."""

    position: int
    ahead: int
    more: bool


class NextTry(TypedDict):
    """When a task is retried, and why."""

    attempt: int
    of: int
    at: str
    code: str
    message: str


class Usual(TypedDict):
    """How long the model took recently."""

    median_seconds: float | None
    p95_seconds: float | None
    runs: int


class Price(TypedDict):
    """What a task costs, and the state of that payment."""

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
    """A model: what it makes, takes and costs."""

    name: str
    title: str
    type: Literal["image", "video"]
    provider: str
    available: bool
    credits: int
    references: dict[str, int]
    parameters: dict[str, Any]


class Me(TypedDict):
    """The user a token or key belongs to, and what it may do."""

    user_id: str
    role: str
    scopes: list[str]


class Balance(TypedDict):
    """Credits to spend, and credits held by unfinished tasks."""

    available: int
    held: int


class Snapshot(TypedDict):
    """Everything a user sees at one moment; events after `cursor` bring later changes."""

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
    """An event. `ready` begins every connection; `reset` means that events were missed, so read the state again."""

    type: str
    cursor: str | None = None
    at: str | None = None
    subject: str | None = None
    data: dict[str, Any] = field(default_factory=dict)


class SceneReason(TypedDict):
    """Why an image failed, or why it is retried."""

    code: str
    message: str | None


class Scene(TypedDict):
    """One scene of a run. Its addresses work for minutes."""

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
    """Counts of scenes by state."""

    scenes: int
    waiting: int
    queued: int
    processing: int
    completed: int
    failed: int
    cancelled: int
    percent: int


class HeldBack(TypedDict):
    """Why nothing starts now, and until when; None if a person must act first."""

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


class Candidate(TypedDict):
    """A TMDB show that may match a title."""

    tmdb_id: int
    name: str
    original_name: str
    first_air_date: str
    score: float


class TitleTrouble(TypedDict):
    """The last error of a title, and which part of it failed."""

    of: Literal["poster", "tmdb", "bangumi"]
    code: str
    message: str | None
    at: str | None


class Title(TypedDict):
    """A title as it is now."""

    id: str
    bangumi_id: int | None
    title_japanese: str | None
    title_chinese: str | None
    title_english: str | None
    year: int | None
    poster_url: str | None
    thumbnail_url: str | None
    poster_source: str | None
    poster_state: Literal["none", "remote", "stored"]
    poster_width: int | None
    poster_height: int | None
    poster_checked_at: str | None
    tmdb_id: int | None
    tmdb_found_by: Literal["title", "search", "import", "person"] | None
    tmdb_state: Literal["found", "in_doubt", "not_found", "waiting", "none"]
    tmdb_looked_up_at: str | None
    tmdb_next_look_up_at: str | None
    tmdb_candidates: list[Candidate]
    error: TitleTrouble | None
    created_at: str
    updated_at: str


class TitlePage(TypedDict):
    """Titles, newest first; `next` is the `before` of the page after."""

    titles: list[Title]
    next: str | None


class Refusal(TypedDict):
    """Why one item of several was refused."""

    code: str
    message: str
    hint: str


class ImportedTitle(TypedDict):
    """The outcome for one imported title."""

    id: str | None
    result: Literal["created", "updated", "unchanged", "refused"]
    refused: Refusal | None


class PosterDownload(TypedDict):
    """The outcome for one requested poster."""

    title_id: str
    queued: bool
    refused: Refusal | None


class ScheduleTimes(TypedDict):
    """When a schedule ran last, and when it runs next."""

    last_at: str | None
    next_at: str | None


class CatalogueStatus(TypedDict):
    """The state of the catalogue and of the work on it."""

    running: bool
    syncing: bool
    jobs: dict[str, dict[str, int]]
    titles: int
    posters: dict[str, int]
    tmdb: dict[str, int]
    in_trouble: int
    tmdb_configured: bool
    schedules: dict[str, ScheduleTimes]
