"""Requests and responses of the catalogue, with the examples in /openapi.json, and how rows become responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from longtake.capabilities.catalogue.queries import PosterState, TmdbState
from longtake.clock import iso_timestamp

if TYPE_CHECKING:
    from sqlalchemy import Row

TITLE_ID = "019a8f6e-9c11-7a52-b0de-71c3a4f5e680"
JOB_ID = "019a8f6f-0d37-7e09-a1c4-2b6f0c9d8e71"
MOMENT = "2026-01-01T12:00:00.000000Z"
COVER = "https://lain.bgm.tv/pic/cover/l/aa/bb/1424_xyz.jpg"
#: The most titles or posters in one request.
BATCH = 500

BODY_EXAMPLE: dict[str, Any] = {"bangumi_id": 1424, "title_japanese": "けいおん!", "year": 2009, "poster": COVER}
TITLE_EXAMPLE: dict[str, Any] = {
    "id": TITLE_ID, "bangumi_id": 1424, "title_japanese": "けいおん!", "title_chinese": "轻音少女",
    "title_english": None, "year": 2009, "poster_url": "/posters/0f343b0931126a20.jpg",
    "thumbnail_url": "/posters/0f343b0931126a20-small.webp",
    "poster_source": COVER, "poster_state": "stored", "poster_width": 600, "poster_height": 849,
    "poster_checked_at": MOMENT, "tmdb_id": 42253, "tmdb_found_by": "title", "tmdb_state": "found",
    "tmdb_looked_up_at": MOMENT, "tmdb_next_look_up_at": None, "tmdb_candidates": [], "error": None,
    "created_at": MOMENT, "updated_at": MOMENT,
}  # fmt: skip


class TitleBody(BaseModel):
    """A title to add or update. Fields that are left out stay as they are."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [BODY_EXAMPLE]})

    bangumi_id: int | None = Field(default=None, description="Titles with the same id are the same title.")
    title_japanese: str | None = Field(default=None, max_length=1_000)
    title_chinese: str | None = Field(default=None, max_length=1_000)
    title_english: str | None = Field(default=None, max_length=1_000)
    year: int | None = Field(default=None, description="The year it first aired.")
    poster: str | None = Field(default=None, max_length=4_000, description="The address of an image, or /posters/FILE.")
    tmdb_id: int | None = Field(default=None, description="The show on TMDB, if known; a person's choice stays.")


class TitlesBody(BaseModel):
    """Titles to add together. Each is checked by itself, so an invalid one does not keep out the others."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"titles": [BODY_EXAMPLE]}]})

    titles: list[dict[str, Any]] = Field(max_length=BATCH, description="Each as `POST /v1/catalogue/titles` takes it.")


class MatchBody(BaseModel):
    """The show on TMDB that a title is."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"tmdb_id": 42253}]})

    tmdb_id: int | None = Field(default=None, ge=1, le=2**53, description="The show; null if TMDB does not have it.")
    automatic: bool = Field(default=False, strict=True, description="Forget the choice, and look the title up again.")


class PosterRequest(BaseModel):
    """A poster for a title."""

    model_config = ConfigDict(extra="forbid")

    title_id: UUID
    url: str = Field(max_length=4_000)


class PostersBody(BaseModel):
    """Posters to fetch now."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"downloads": [{"title_id": TITLE_ID, "url": COVER}]}]}
    )

    downloads: list[PosterRequest] = Field(min_length=1, max_length=BATCH)


class CandidateView(BaseModel):
    """A show that may be the title."""

    tmdb_id: int
    name: str
    original_name: str
    first_air_date: str
    score: float


class TitleError(BaseModel):
    """The last error of a title, and what it was about."""

    of: Literal["poster", "tmdb", "bangumi"]
    code: str
    message: str | None
    at: str | None


class TitleView(BaseModel):
    """A title as it is now."""

    model_config = ConfigDict(json_schema_extra={"examples": [TITLE_EXAMPLE]})

    id: str
    bangumi_id: int | None
    title_japanese: str | None
    title_chinese: str | None
    title_english: str | None
    year: int | None
    poster_url: str | None = Field(description="For pages: the stored poster, or its source until it is stored.")
    thumbnail_url: str | None = Field(description="A small WebP for lists.")
    poster_source: str | None
    poster_state: PosterState
    poster_width: int | None
    poster_height: int | None
    poster_checked_at: str | None
    tmdb_id: int | None
    tmdb_found_by: Literal["title", "search", "import", "person"] | None
    tmdb_state: TmdbState
    tmdb_looked_up_at: str | None
    tmdb_next_look_up_at: str | None
    tmdb_candidates: list[CandidateView] = Field(description="Shows that a person may choose from.")
    error: TitleError | None
    created_at: str
    updated_at: str


class TitlePage(BaseModel):
    """A page of titles."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"titles": [TITLE_EXAMPLE], "next": None}]})

    titles: list[TitleView]
    next: str | None = Field(description="Pass it as `before` for the next page; null at the end.")


class Refusal(BaseModel):
    """Why one of several items was refused."""

    code: str
    message: str
    hint: str


class ImportedTitle(BaseModel):
    """The result of one title of an import."""

    id: str | None
    result: Literal["created", "updated", "unchanged", "refused"]
    refused: Refusal | None


class ImportedTitles(BaseModel):
    """The results of an import, in the order of its titles."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"items": [{"id": TITLE_ID, "result": "created", "refused": None}]}]}
    )

    items: list[ImportedTitle]


class PosterDownload(BaseModel):
    """The result of one requested poster."""

    title_id: str
    queued: bool = Field(description="Whether it is fetched now; false also when it is stored already.")
    refused: Refusal | None


class PosterDownloads(BaseModel):
    """The results of requested posters, in their order."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"items": [{"title_id": TITLE_ID, "queued": True, "refused": None}]}]}
    )

    items: list[PosterDownload]


class StartedJob(BaseModel):
    """The job that was queued."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"job_id": JOB_ID}]})

    job_id: str


class ShutdownResult(BaseModel):
    """Whether all running jobs of the catalogue have ended."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"at_rest": True}]})

    at_rest: bool


class ScheduleTimes(BaseModel):
    """The last and the next run of a schedule."""

    last_at: str | None
    next_at: str | None


STATUS_EXAMPLE: dict[str, Any] = {
    "running": True, "syncing": False, "jobs": {}, "titles": 1, "in_trouble": 0, "tmdb_configured": True,
    "posters": {"none": 0, "remote": 0, "stored": 1},
    "tmdb": {"found": 1, "in_doubt": 0, "not_found": 0, "waiting": 0, "none": 0},
    "schedules": {"sync": {"last_at": MOMENT, "next_at": MOMENT}},
}  # fmt: skip


class CatalogueStatus(BaseModel):
    """The status of the catalogue."""

    model_config = ConfigDict(json_schema_extra={"examples": [STATUS_EXAMPLE]})

    running: bool = Field(description="Whether a worker is alive and the catalogue is not shut down.")
    syncing: bool = Field(description="Whether a sync or one of its jobs is waiting or running.")
    jobs: dict[str, dict[str, int]] = Field(description="Live jobs by kind and state.")
    titles: int
    posters: dict[str, int]
    tmdb: dict[str, int]
    in_trouble: int = Field(description="Titles with an error that still applies.")
    tmdb_configured: bool
    schedules: dict[str, ScheduleTimes]


_COPIED = (
    *("id", "bangumi_id", "title_japanese", "title_chinese", "title_english", "year"),
    *("poster_url", "thumbnail_url", "poster_source", "tmdb_id", "tmdb_found_by"),
)
_TIMES = ("tmdb_looked_up_at", "created_at", "updated_at")


def show_title(row: Row[Any]) -> dict[str, Any]:
    """Return a title as responses hold it."""
    error = None
    if row.error_code is not None:
        at = iso_timestamp(row.error_at)
        error = {"of": row.error_of, "code": row.error_code, "message": row.error, "at": at}
    return {
        **{name: getattr(row, name) for name in _COPIED},
        **{name: iso_timestamp(getattr(row, name)) for name in _TIMES},
        "poster_state": row.poster_state,
        "poster_width": row.width,
        "poster_height": row.height,
        "poster_checked_at": iso_timestamp(row.checked_at),
        "tmdb_state": row.tmdb_state,
        "tmdb_next_look_up_at": iso_timestamp(row.tmdb_due_at),
        "tmdb_candidates": row.tmdb_candidates or [],
        "error": error,
    }


def show_status(status: dict[str, Any], *, tmdb_configured: bool) -> dict[str, Any]:
    """Return the status as responses hold it."""
    rows = status.pop("schedules")
    times = {
        name.partition(".")[2]: {
            "last_at": iso_timestamp(row.last_at),
            "next_at": None if row.paused else iso_timestamp(row.next_at),
        }
        for name, row in sorted(rows.items())
    }
    return {**status, "tmdb_configured": tmdb_configured, "schedules": times}
