"""Titles and the catalogue as people read them in a terminal."""

from collections.abc import Mapping
from typing import Any

from longtake.cli.output import age, on_terminal, print_facts, print_note, print_table
from longtake.cli.task_ids import short
from longtake.client.shapes import Candidate, CatalogueStatus, Title, TitlePage

NAME_SHOWN = 60
KEY_HINT = "`longtake secrets set tmdb_api_key` or LONGTAKE_TMDB_API_KEY"
IDLE_HINT = "`longtake catalogue start` goes on after a stop; `longtake serve` or `longtake worker` works on it."


def name_of(title: Title) -> str:
    """Return what people call it."""
    known = title["title_japanese"] or title["title_chinese"] or title["title_english"]
    return known or f"Bangumi {title['bangumi_id']}"


def print_titles(page: TitlePage) -> None:
    """Print a page of titles."""
    print_table(
        ("id", "bangumi", "title", "year", "poster", "tmdb", "trouble"),
        [
            (
                short(one["id"]) if on_terminal() else one["id"], one["bangumi_id"], name_of(one)[:NAME_SHOWN],
                one["year"], one["poster_state"], one["tmdb_id"] or one["tmdb_state"],
                one["error"] and f"{one['error']['of']}: {one['error']['code']}",
            )
            for one in page["titles"]
        ],
        nothing="There are no such titles.",
        cut=("title", "trouble"),
        spare=("year", "trouble"),
    )  # fmt: skip
    if page["next"]:
        print_note(f"There are more: add --before {page['next']}")


def print_title(title: Title) -> None:
    """Print all that is known of a title."""
    error = title["error"]
    size = f" ({title['poster_width']} × {title['poster_height']})" if title["poster_width"] else ""
    print_facts(
        {
            "id": title["id"],
            "bangumi": title["bangumi_id"],
            "japanese": title["title_japanese"],
            "chinese": title["title_chinese"],
            "english": title["title_english"],
            "year": title["year"],
            "poster": f"{title['poster_state']}{size}",
            "poster address": title["poster_url"],
            "thumbnail": title["thumbnail_url"],
            "poster source": title["poster_source"],
            "poster checked": age(title["poster_checked_at"]),
            "tmdb": _tmdb(title),
            "looked up": age(title["tmdb_looked_up_at"]),
            "next look-up": age(title["tmdb_next_look_up_at"]),
            "last error": error and f"{error['of']}: {error['message'] or ''} [{error['code']}], {age(error['at'])}",
            "created": age(title["created_at"]),
            "changed": age(title["updated_at"]),
        }
    )
    if title["tmdb_candidates"]:
        print_candidates(title["tmdb_candidates"])


def print_candidates(candidates: list[Candidate]) -> None:
    """Print the shows that a title may be, by number."""
    print_table(
        ("number", "tmdb", "name", "original name", "first on air", "score"),
        [
            (number, one["tmdb_id"], one["name"], one["original_name"], one["first_air_date"], f"{one['score']:.0f}")
            for number, one in enumerate(candidates, 1)
        ],
        nothing="There are no candidates.",
        cut=("name", "original name"),
        spare=("first on air", "name"),
    )


def print_status(status: CatalogueStatus) -> None:
    """Print how the catalogue stands."""
    schedules: Mapping[str, Any] = status["schedules"]
    print_facts(
        {
            "titles": f"{status['titles']:,}",
            "posters": f"{_part(status['posters']['stored'], status)} stored, {status['posters']['remote']:,} remote,"
            f" {status['posters']['none']:,} without",
            "tmdb ids": f"{_part(status['tmdb']['found'], status)} found, {status['tmdb']['in_doubt']:,} in doubt,"
            f" {status['tmdb']['not_found']:,} not found, {status['tmdb']['waiting']:,} waiting",
            "in trouble": f"{status['in_trouble']:,}"
            + (": `longtake catalogue list --in-trouble`" if status["in_trouble"] else ""),
            "works on it": "yes" if status["running"] else f"nobody: {IDLE_HINT}",
            "syncing": f"yes, {jobs_left(status):,} jobs left" if status["syncing"] else "no",
            "next sync": _next(schedules.get("sync")),
            "next calendar": _next(schedules.get("calendar")),
            "tmdb key": "there is one" if status["tmdb_configured"] else f"none, so no ids are looked up: {KEY_HINT}",
        }
    )


def jobs_left(status: CatalogueStatus) -> int:
    """Return how many jobs wait or run."""
    return sum(sum(states.values()) for states in status["jobs"].values())


def describe(status: CatalogueStatus) -> str:
    """Return in words how far a sync is."""
    tmdb = status["tmdb"]
    return (
        f"{_part(status['posters']['stored'], status)} posters, {tmdb['found']:,} ids, {tmdb['in_doubt']:,} in doubt,"
        f" {status['in_trouble']:,} in trouble, {jobs_left(status):,} jobs left"
    )


def _part(number: int, status: CatalogueStatus) -> str:
    return f"{number:,} of {status['titles']:,}"


def _next(rhythm: Mapping[str, Any] | None) -> str:
    if rhythm is None or rhythm["next_at"] is None:
        return "not by itself"
    last = f" (last {age(rhythm['last_at'])})" if rhythm["last_at"] else ""
    return f"{age(rhythm['next_at'])}{last}"


def _tmdb(title: Title) -> str:
    if title["tmdb_id"] is None:
        by_hand = title["tmdb_found_by"] == "person"
        return "none, as a person has said" if by_hand else title["tmdb_state"].replace("_", " ")
    by = {"title": "by its name", "search": "by a search", "import": "in an import", "person": "by a person"}
    return f"{title['tmdb_id']}, found {by.get(title['tmdb_found_by'] or '', 'otherwise')}"
