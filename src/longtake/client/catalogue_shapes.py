"""Titles and the catalogue, in the words of the HTTP API. Further members may come with a newer server."""

from __future__ import annotations

from typing import Literal, TypedDict


class Candidate(TypedDict):
    """A show of TMDB that may be a title."""

    tmdb_id: int
    name: str
    original_name: str
    first_air_date: str
    score: float


class TitleTrouble(TypedDict):
    """What went wrong last, and with what."""

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
    """Why one of several was not taken."""

    code: str
    message: str
    hint: str


class BroughtTitle(TypedDict):
    """What became of one of the titles."""

    id: str | None
    result: Literal["created", "updated", "unchanged", "refused"]
    refused: Refusal | None


class BegunDownload(TypedDict):
    """What became of one wish for a poster."""

    title_id: str
    queued: bool
    refused: Refusal | None


class Rhythm(TypedDict):
    """When it happened last, and when it happens next by itself."""

    last_at: str | None
    next_at: str | None


class CatalogueStatus(TypedDict):
    """How the catalogue stands."""

    running: bool
    syncing: bool
    jobs: dict[str, dict[str, int]]
    titles: int
    posters: dict[str, int]
    tmdb: dict[str, int]
    in_trouble: int
    tmdb_configured: bool
    schedules: dict[str, Rhythm]
