"""Requests and answers of the catalogue as HTTP sees them, with examples; /openapi.json is made of these."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from longtake.capabilities.catalogue.queries import PosterState, TmdbState

TITLE_ID = "019a8f6e-9c11-7a52-b0de-71c3a4f5e680"
JOB_ID = "019a8f6f-0d37-7e09-a1c4-2b6f0c9d8e71"
MOMENT = "2026-01-01T12:00:00.000000Z"
COVER = "https://lain.bgm.tv/pic/cover/l/aa/bb/1424_xyz.jpg"
#: As many as one request brings in.
BATCH = 500

GIVEN_EXAMPLE: dict[str, Any] = {"bangumi_id": 1424, "title_japanese": "けいおん!", "year": 2009, "poster": COVER}
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
    """A title to be, or what is new about one: what is left out stays as it is."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [GIVEN_EXAMPLE]})

    bangumi_id: int | None = Field(default=None, description="The same id is the same title.")
    title_japanese: str | None = Field(default=None, max_length=1_000)
    title_chinese: str | None = Field(default=None, max_length=1_000)
    title_english: str | None = Field(default=None, max_length=1_000)
    year: int | None = Field(default=None, description="In which it was first on air.")
    poster: str | None = Field(default=None, max_length=4_000, description="Address of a picture, or /posters/FILE.")
    tmdb_id: int | None = Field(
        default=None, description="Which show of TMDB it is, if you know; a person's choice stays."
    )


class TitlesBody(BaseModel):
    """Titles to bring in together. Each is checked by itself, so that one that is wrong keeps no other out."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"titles": [GIVEN_EXAMPLE]}]})

    titles: list[dict[str, Any]] = Field(max_length=BATCH, description="Each as `POST /v1/catalogue/titles` takes it.")


class MatchBody(BaseModel):
    """Which show a title is."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"tmdb_id": 42253}]})

    tmdb_id: int | None = Field(default=None, ge=1, le=2**53, description="The show; null: TMDB does not have it.")
    automatic: bool = Field(default=False, strict=True, description="Forget what was chosen, and look it up again.")


class WantedPoster(BaseModel):
    """A poster for a title."""

    model_config = ConfigDict(extra="forbid")

    title_id: UUID
    url: str = Field(max_length=4_000)


class PostersBody(BaseModel):
    """Posters to fetch now."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"downloads": [{"title_id": TITLE_ID, "url": COVER}]}]}
    )

    downloads: list[WantedPoster] = Field(min_length=1, max_length=BATCH)


class CandidateView(BaseModel):
    """A show that may be the title."""

    tmdb_id: int
    name: str
    original_name: str
    first_air_date: str
    score: float


class TitleError(BaseModel):
    """What went wrong last, and with what."""

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
    poster_url: str | None = Field(description="For pages: ours once it is stored, its source before.")
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
    tmdb_candidates: list[CandidateView] = Field(description="From which a person may choose.")
    error: TitleError | None
    created_at: str
    updated_at: str


class TitlePage(BaseModel):
    """A page of titles."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"titles": [TITLE_EXAMPLE], "next": None}]})

    titles: list[TitleView]
    next: str | None = Field(description="What `before` has to be for the page after; null at the end.")


class Refusal(BaseModel):
    """Why one of several was not taken."""

    code: str
    message: str
    hint: str


class BroughtTitle(BaseModel):
    """What became of one of the titles."""

    id: str | None
    result: Literal["created", "updated", "unchanged", "refused"]
    refused: Refusal | None


class TitlesAnswer(BaseModel):
    """What became of the titles, in their order."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"items": [{"id": TITLE_ID, "result": "created", "refused": None}]}]}
    )

    items: list[BroughtTitle]


class BegunDownload(BaseModel):
    """What became of one wish for a poster."""

    title_id: str
    queued: bool = Field(description="Whether it is fetched now; false also when it is ours already.")
    refused: Refusal | None


class PostersAnswer(BaseModel):
    """What became of the wishes, in their order."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"items": [{"title_id": TITLE_ID, "queued": True, "refused": None}]}]}
    )

    items: list[BegunDownload]


class Begun(BaseModel):
    """The job that does it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"job_id": JOB_ID}]})

    job_id: str


class Rested(BaseModel):
    """Whether all of the catalogue's jobs have come to rest."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"at_rest": True}]})

    at_rest: bool


class Rhythm(BaseModel):
    """When it happened last, and when it happens next by itself."""

    last_at: str | None
    next_at: str | None


STATUS_EXAMPLE: dict[str, Any] = {
    "running": True, "syncing": False, "jobs": {}, "titles": 1, "in_trouble": 0, "tmdb_configured": True,
    "posters": {"none": 0, "remote": 0, "stored": 1},
    "tmdb": {"found": 1, "in_doubt": 0, "not_found": 0, "waiting": 0, "none": 0},
    "schedules": {"sync": {"last_at": MOMENT, "next_at": MOMENT}},
}  # fmt: skip


class CatalogueStatus(BaseModel):
    """How the catalogue stands."""

    model_config = ConfigDict(json_schema_extra={"examples": [STATUS_EXAMPLE]})

    running: bool = Field(description="Whether anybody works on it: a worker lives, and it is not shut down.")
    syncing: bool = Field(description="Whether anything of a sync is under way.")
    jobs: dict[str, dict[str, int]] = Field(description="Live jobs by kind and state.")
    titles: int
    posters: dict[str, int]
    tmdb: dict[str, int]
    in_trouble: int = Field(description="Titles whose last error stands.")
    tmdb_configured: bool
    schedules: dict[str, Rhythm]
