"""Writing titles: new ones, and what is new about those that are there. The same again changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import Row, select, update
from sqlalchemy.dialects import postgresql, sqlite

from longtake.capabilities.catalogue.locks import make_posters
from longtake.capabilities.catalogue.new_titles import NAMES, NewTitle, merged
from longtake.capabilities.catalogue.poster_urls import LOCAL_PREFIX, PosterHosts, is_local, poster_hash
from longtake.capabilities.catalogue.removal import posters_of, remove_unused_posters
from longtake.capabilities.catalogue.tables import SUBJECT, SYNC, titles
from longtake.capabilities.catalogue.title_errors import NO_TROUBLE
from longtake.clock import new_id
from longtake.db.dialects import NOW, SQLITE
from longtake.engine.jobs import JobRequest
from longtake.engine.tables import jobs
from longtake.errors import StateConflict

if TYPE_CHECKING:
    from longtake.db import Transaction
    from longtake.engine.engine import Engine

#: One for all that ask for a sync while none has begun.
SYNC_KEY = "sync"


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a title that was brought in."""

    id: str
    result: Literal["created", "updated", "unchanged"]


def write_titles(
    tx: Transaction,
    engine: Engine,
    hosts: PosterHosts,
    new: Sequence[NewTitle],
    *,
    only_missing: bool = False,
    request_id: str | None = None,
) -> list[Written]:
    """Write titles, and have done what they need; ``only_missing`` leaves alone what a title has already."""
    wanted: dict[str, NewTitle] = {}
    for one in new:
        wanted[one.identity] = merged(wanted[one.identity], one) if one.identity in wanted else one
    before = posters_of(tx, titles.c.identity.in_(wanted))
    pictures = poster_rows(tx, hosts, wanted.values(), before)
    created = _insert(tx, wanted.values(), pictures)
    there = select(titles).where(titles.c.identity.in_(wanted.keys() - created.keys())).with_for_update()
    # In one order, so that two who bring in the same titles cannot deadlock.
    found = {row.identity: row for row in tx.execute(there.order_by(titles.c.id))}
    changed = {identity: _change(row, wanted[identity], pictures, only_missing) for identity, row in found.items()}
    for identity, change in changed.items():
        if change:
            change_title = update(titles).where(titles.c.id == found[identity].id)
            tx.execute(change_title.values(**change, updated_at=NOW))
    replaced = {found[one].poster_hash for one, change in changed.items() if "poster_hash" in change}
    remove_unused_posters(tx, engine, replaced - {None})
    if created or any(changed.values()):
        _ask_about(tx, engine, created, wanted, request_id)
        request_sync(tx, engine, request_id)
    return [_written(one.identity, created, found, changed) for one in new]


def request_sync(tx: Transaction, engine: Engine, request_id: str | None = None) -> str:
    """Have a sync begin after this transaction; return its job.

    One that is about to end may not see what is written here. So its row is locked: it ends after us, or is gone.
    """
    while True:
        job = engine.enqueue(tx, SYNC, key=SYNC_KEY, request_id=request_id)
        if job.created:
            return job.id
        if tx.execute(update(jobs).where(jobs.c.id == job.id).values(due_at=jobs.c.due_at)).rowcount:
            return job.id


def poster_rows(
    tx: Transaction, hosts: PosterHosts, new: Iterable[NewTitle], before: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """Make a row for every picture that has none; return what titles say of each, by what they were given.

    ``before`` are pictures that the titles point to now. All are locked: new ones stay, old ones may have to go.
    """
    urls = {one.poster: hosts.normalised(one.poster) for one in new if one.poster and not is_local(one.poster)}
    hashes = {given: poster_hash(url) for given, url in urls.items()}
    rows = make_posters(tx, {hashes[given]: url for given, url in urls.items()}, also=before)
    return {given: poster_columns(url, rows[hashes[given]]) for given, url in urls.items()}


def poster_columns(url: str, row: Row[Any]) -> dict[str, Any]:
    """Return what a title says of a picture: where it is from, and where readers find it now."""
    return {
        "poster_source": url,
        "poster_hash": row.hash,
        "poster_url": LOCAL_PREFIX + row.file if row.file else url,
        "thumbnail_url": LOCAL_PREFIX + row.thumbnail if row.file and row.thumbnail else None,
    }


def picture_of(one: NewTitle, pictures: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what a title says of its poster; nothing when it was given none."""
    if one.poster is None:
        return {}
    ours = {"poster_source": None, "poster_hash": None, "poster_url": one.poster, "thumbnail_url": None}
    return pictures.get(one.poster, ours)


def _insert(tx: Transaction, new: Iterable[NewTitle], pictures: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """Insert those that are not there; return their ids by identity."""
    empty = dict.fromkeys(("poster_source", "poster_hash", "poster_url", "thumbnail_url"))
    rows = [
        {
            "id": new_id(),
            "identity": one.identity,
            "bangumi_id": one.bangumi_id,
            **{name: getattr(one, name) for name in NAMES},
            "year": one.year,
            **empty,
            **picture_of(one, pictures),
            "tmdb_id": one.tmdb_id,
            "tmdb_found_by": "import" if one.tmdb_id else None,
        }
        for one in sorted(new, key=lambda each: each.identity)
    ]
    insert = (sqlite if tx.dialect == SQLITE else postgresql).insert(titles)
    created: dict[str, str] = {}
    # Those that can be looked up are due now, those that cannot are not.
    for due in (True, False):
        part = [row for row in rows if _can_be_looked_up(row) is due]
        if part:
            given = insert.values(created_at=NOW, updated_at=NOW, tmdb_due_at=NOW if due else None)
            statement = given.on_conflict_do_nothing().returning(titles.c.id, titles.c.identity)
            created |= {row.identity: str(row.id) for row in tx.execute(statement, part)}
    return created


def _can_be_looked_up(row: Mapping[str, Any]) -> bool:
    return bool(row["title_japanese"]) and row["tmdb_found_by"] is None


def _change(
    row: Row[Any],
    one: NewTitle,
    pictures: Mapping[str, dict[str, Any]],
    only_missing: bool,  # noqa: FBT001
) -> dict[str, Any]:
    """Return what is to be changed of a title that is there."""
    said = {name: getattr(one, name) for name in (*NAMES, "year") if getattr(one, name) is not None}
    picture = picture_of(one, pictures)
    # The same source is the same picture, wherever readers find it by now.
    another = picture and (picture["poster_source"] or picture["poster_url"]) != (row.poster_source or row.poster_url)
    if another and not (only_missing and row.poster_url):
        said |= picture
    # Who brings a file in again does not take back what somebody has chosen since.
    if one.tmdb_id is not None and row.tmdb_found_by != "person":
        said |= {"tmdb_id": one.tmdb_id, "tmdb_found_by": "import"}
    change = {name: value for name, value in said.items() if getattr(row, name) != value}
    if only_missing:
        change = {name: value for name, value in change.items() if getattr(row, name) is None or name in picture}
    after = {**row._asdict(), **change}
    identified = "tmdb_found_by" in change or "tmdb_id" in change
    if identified:
        change |= {"tmdb_due_at": None, "tmdb_candidates": None}
    elif change.keys() & {*NAMES, "year"} and _can_be_looked_up(after):
        # What was looked for under other names may be found under these.
        change |= {"tmdb_due_at": NOW}
    completed = change and after["title_japanese"] and after["year"]
    if {"tmdb": identified, "poster": "poster_url" in change, "bangumi": completed}.get(row.error_of):
        # What was in trouble is not needed any more, or is about to be tried as something else.
        change |= NO_TROUBLE
    return change


def _ask_about(
    tx: Transaction, engine: Engine, created: Mapping[str, str], wanted: Mapping[str, NewTitle], request_id: str | None
) -> None:
    """Have Bangumi asked about new titles of which hardly more than the id is known."""
    bare = [
        JobRequest(SUBJECT, {"bangumi_id": one.bangumi_id}, key=title_id, subject=title_id, request_id=request_id)
        for identity, title_id in sorted(created.items())
        if (one := wanted[identity]).bangumi_id is not None and not (one.title_japanese and one.year)
    ]
    engine.enqueue_many(tx, bare)


def _written(
    identity: str, created: Mapping[str, str], found: Mapping[str, Row[Any]], changed: Mapping[str, dict[str, Any]]
) -> Written:
    if identity in created:
        return Written(created[identity], "created")
    if identity not in found:
        raise StateConflict("A title was deleted while it was brought in.", hint="Send it once more.")
    return Written(str(found[identity].id), "updated" if changed[identity] else "unchanged")
