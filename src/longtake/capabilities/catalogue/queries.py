"""Reads titles and the status of the whole catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import ColumnElement, Row, and_, case, func, or_, select

from longtake.capabilities.catalogue.tables import (
    CALENDAR,
    KINDS,
    POSTER,
    SEARCH,
    SYNC,
    SYNC_IDS,
    SYNC_POSTERS,
    YEAR,
    posters,
    titles,
)
from longtake.engine.leases import find_workers, is_alive
from longtake.engine.tables import job_kinds, jobs, schedules
from longtake.errors import NotFound

if TYPE_CHECKING:
    from longtake.db import Transaction

PosterState = Literal["none", "remote", "stored"]
TmdbState = Literal["found", "in_doubt", "not_found", "waiting", "none"]

#: The kinds of a sync and of the jobs it queues.
SYNC_KINDS = frozenset({SYNC, SYNC_POSTERS, SYNC_IDS, POSTER, YEAR, SEARCH})

IS_STORED: ColumnElement[bool] = titles.c.poster_url.like("/posters/%")
#: Written exactly as in the partial indexes.
POSTER_STATES: dict[PosterState, ColumnElement[bool]] = {
    "none": titles.c.poster_url.is_(None),
    "remote": and_(titles.c.poster_url.is_not(None), ~IS_STORED),
    "stored": IS_STORED,
}
TMDB_STATES: dict[TmdbState, ColumnElement[bool]] = {
    "found": titles.c.tmdb_id.is_not(None),
    "in_doubt": titles.c.tmdb_candidates.is_not(None),
    "not_found": and_(
        titles.c.tmdb_id.is_(None),
        titles.c.tmdb_candidates.is_(None),
        titles.c.tmdb_found_by.is_(None),
        titles.c.tmdb_looked_up_at.is_not(None),
    ),
    "waiting": and_(titles.c.tmdb_looked_up_at.is_(None), titles.c.tmdb_due_at.is_not(None)),
    "none": and_(
        titles.c.tmdb_id.is_(None),
        or_(
            titles.c.tmdb_found_by.is_not(None),
            and_(titles.c.tmdb_looked_up_at.is_(None), titles.c.tmdb_due_at.is_(None)),
        ),
    ),
}
SHOWN = (
    *(*titles.columns, posters.c.width, posters.c.height, posters.c.checked_at),
    case(*((condition, state) for state, condition in POSTER_STATES.items())).label("poster_state"),
    case(*((condition, state) for state, condition in TMDB_STATES.items())).label("tmdb_state"),
)


@dataclass(frozen=True, slots=True)
class TitleFilter:
    """Which titles to list; None means all."""

    poster: PosterState | None = None
    tmdb: TmdbState | None = None
    in_trouble: bool = False
    bangumi_id: int | None = None
    year: int | None = None


def get_title(tx: Transaction, title_id: str) -> Row[Any]:
    """Return one title with its poster's columns. Raises NotFound."""
    row = tx.execute(_select().where(titles.c.id == title_id)).first()
    if row is None:
        raise no_title(title_id)
    return row


def no_title(title_id: str) -> NotFound:
    """Return the error for a title that does not exist."""
    return NotFound(f"There is no title {title_id!r}.", hint="List them with `longtake catalogue list`.")


def list_titles(tx: Transaction, wanted: TitleFilter, before: str | None, limit: int) -> list[Row[Any]]:
    """Return a page of titles, newest first, those before an id."""
    query = _select()
    if before is not None:
        query = query.where(titles.c.id < before)
    if wanted.poster is not None:
        query = query.where(POSTER_STATES[wanted.poster])
    if wanted.tmdb is not None:
        query = query.where(TMDB_STATES[wanted.tmdb])
    if wanted.in_trouble:
        query = query.where(titles.c.error_code.is_not(None))
    for name in ("bangumi_id", "year"):
        if (value := getattr(wanted, name)) is not None:
            query = query.where(titles.c[name] == value)
    return list(tx.execute(query.order_by(titles.c.id.desc()).limit(limit)).all())


def read_status(tx: Transaction, incarnation: str | None) -> dict[str, Any]:
    """Return counts of titles by state, live jobs by kind and state, schedules, and whether the catalogue runs."""
    live = select(jobs.c.kind, jobs.c.state, func.count().label("number")).where(jobs.c.kind.in_(KINDS))
    live_jobs: dict[str, dict[str, int]] = {}
    for row in tx.execute(live.group_by(jobs.c.kind, jobs.c.state)):
        live_jobs.setdefault(row.kind, {"ready": 0, "running": 0})[row.state] = row.number
    return {
        "running": is_running(tx, incarnation),
        "syncing": not SYNC_KINDS.isdisjoint(live_jobs),
        "jobs": dict(sorted(live_jobs.items())),
        "titles": tx.execute(select(func.count()).select_from(titles)).scalar_one(),
        "posters": {state: _count(tx, condition) for state, condition in POSTER_STATES.items()},
        "tmdb": {state: _count(tx, condition) for state, condition in TMDB_STATES.items()},
        "in_trouble": _count(tx, titles.c.error_code.is_not(None)),
        "schedules": {
            row.name: row for row in tx.execute(select(schedules).where(schedules.c.name.in_((SYNC, CALENDAR))))
        },
    }


def is_running(tx: Transaction, incarnation: str | None) -> bool:
    """Say whether the catalogue runs: a worker is alive, and none of its kinds is paused."""
    stopped = select(job_kinds.c.name).where(job_kinds.c.name.in_(KINDS), job_kinds.c.paused).limit(1)
    seen, _orphans = find_workers(tx)
    return any(is_alive(one, incarnation) for one in seen) and tx.execute(stopped).first() is None


def running_jobs(tx: Transaction) -> int:
    """Return how many jobs of the catalogue are running."""
    running = (jobs.c.kind.in_(KINDS), jobs.c.state == "running")
    return int(tx.execute(select(func.count()).select_from(jobs).where(*running)).scalar_one())


def _select() -> Any:
    return select(*SHOWN).join(posters, posters.c.hash == titles.c.poster_hash, isouter=True)


def _count(tx: Transaction, condition: ColumnElement[bool]) -> int:
    return int(tx.execute(select(func.count()).select_from(titles).where(condition)).scalar_one())
