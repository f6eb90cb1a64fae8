"""Titles and the catalogue as callers see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from longtake.capabilities.catalogue.queries import PosterState, TmdbState
from longtake.services.assets.schemas import moment

if TYPE_CHECKING:
    from sqlalchemy import Row

_AS_THEY_ARE = (
    *("id", "bangumi_id", "title_japanese", "title_chinese", "title_english", "year"),
    *("poster_url", "thumbnail_url", "poster_source", "tmdb_id", "tmdb_found_by"),
)
_MOMENTS = ("tmdb_looked_up_at", "created_at", "updated_at")


def show_title(row: Row[Any]) -> dict[str, Any]:
    """Return a title as answers have it."""
    error = None
    if row.error_code is not None:
        error = {"of": row.error_of, "code": row.error_code, "message": row.error, "at": moment(row.error_at)}
    return {
        **{name: getattr(row, name) for name in _AS_THEY_ARE},
        **{name: moment(getattr(row, name)) for name in _MOMENTS},
        "poster_state": _poster_state(row),
        "poster_width": row.width,
        "poster_height": row.height,
        "poster_checked_at": moment(row.checked_at),
        "tmdb_state": _tmdb_state(row),
        "tmdb_next_look_up_at": moment(row.tmdb_due_at),
        "tmdb_candidates": row.tmdb_candidates or [],
        "error": error,
    }


def show_status(status: dict[str, Any], *, tmdb_configured: bool) -> dict[str, Any]:
    """Return how the catalogue stands."""
    rhythms = status.pop("schedules")
    times = {
        name.partition(".")[2]: {"last_at": moment(row.last_at), "next_at": None if row.paused else moment(row.next_at)}
        for name, row in sorted(rhythms.items())
    }
    return {**status, "tmdb_configured": tmdb_configured, "schedules": times}


def _poster_state(row: Row[Any]) -> PosterState:
    if row.poster_url is None:
        return "none"
    return "stored" if row.poster_url.startswith("/posters/") else "remote"


def _tmdb_state(row: Row[Any]) -> TmdbState:
    if row.tmdb_id is not None:
        return "found"
    if row.tmdb_candidates:
        return "in_doubt"
    if row.tmdb_found_by is None and row.tmdb_looked_up_at is not None:
        return "not_found"
    return "waiting" if row.tmdb_due_at is not None else "none"
