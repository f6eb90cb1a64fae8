"""Writes titles: new ones, changes of existing ones, removal, and which show of TMDB a title is.

Writing the same again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import Boolean, Row, bindparam, case, delete, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from longtake.capabilities.catalogue.new_titles import NAMES, NewTitle, merge
from longtake.capabilities.catalogue.poster_fetcher import LOCAL_PREFIX, PosterHosts, is_local, poster_hash
from longtake.capabilities.catalogue.queries import get_title, no_title
from longtake.capabilities.catalogue.store import (
    NO_ERROR,
    cleared_error,
    create_posters,
    lock_posters,
    posters_of,
    remove_unused_posters,
)
from longtake.capabilities.catalogue.tables import SEARCH, SUBJECT, SYNC, titles
from longtake.clock import new_id
from longtake.db.dialects import NOW, SQLITE
from longtake.engine.control import cancel_of_subjects
from longtake.engine.jobs import JobRequest
from longtake.engine.tables import jobs
from longtake.errors import StateConflict

if TYPE_CHECKING:
    from longtake.db import Transaction
    from longtake.engine.engine import Engine

#: All requests share one waiting sync.
SYNC_KEY = "sync"


@dataclass(frozen=True, slots=True)
class WrittenTitle:
    """The id of a title, and what writing it did."""

    id: str
    result: Literal["created", "updated", "unchanged"]


def write_titles(
    tx: Transaction,
    engine: Engine,
    hosts: PosterHosts,
    new: Sequence[NewTitle],
    *,
    only_missing: bool = False,
    also: Iterable[str] = (),
    request_id: str | None = None,
) -> list[WrittenTitle]:
    """Write titles, and queue the jobs they need. With ``only_missing``, fields that a title already has stay.

    ``also`` are the ids of other titles that the caller writes afterwards: all are locked together.
    """
    wanted: dict[str, NewTitle] = {}
    for one in new:
        wanted[one.identity] = merge(wanted[one.identity], one) if one.identity in wanted else one
    before = posters_of(tx, titles.c.identity.in_(wanted))
    pictures = create_poster_rows(tx, hosts, wanted.values(), before)
    created = _insert(tx, wanted.values(), pictures)
    written = or_(titles.c.identity.in_(wanted.keys() - created.keys()), titles.c.id.in_(list(also)))
    # Locked in order of id, so that two transactions with the same titles cannot deadlock.
    locked = tx.execute(select(titles).where(written).order_by(titles.c.id).with_for_update())
    found = {row.identity: row for row in locked if row.identity in wanted and row.identity not in created}
    changed = {identity: _change(row, wanted[identity], pictures, only_missing) for identity, row in found.items()}
    for identity, change in changed.items():
        if change:
            change_title = update(titles).where(titles.c.id == found[identity].id)
            tx.execute(change_title.values(**change, updated_at=NOW))
    replaced = {found[one].poster_hash for one, change in changed.items() if "poster_hash" in change}
    # A poster that no title took: the one that has it keeps it.
    offered = {picture["poster_hash"] for picture in pictures.values()}
    taken = {poster_columns_of(wanted[one], pictures).get("poster_hash") for one in created}
    taken |= {change.get("poster_hash", found[one].poster_hash) for one, change in changed.items()}
    remove_unused_posters(tx, engine, (replaced | (offered - taken)) - {None})
    if created or any(changed.values()):
        _request_subjects(tx, engine, created, wanted, request_id)
        request_sync(tx, engine, request_id)
    return [_result(one.identity, created, found, changed) for one in new]


def request_sync(tx: Transaction, engine: Engine, request_id: str | None = None) -> str:
    """Queue a sync that sees what this transaction writes, and return its job id.

    A sync that ends before this commit may not see it. So its row is locked: a waiting one begins after this commit,
    and a running one ends after it. One that another transaction claims or ends at this moment is not waited for: that
    one may wait for titles that we hold. A second sync then follows it.
    """
    job = engine.enqueue(tx, SYNC, key=SYNC_KEY, request_id=request_id)
    # Shared, so that those who write titles at the same time do not wait for each other.
    ours = select(jobs.c.id).where(jobs.c.id == job.id).with_for_update(read=True, skip_locked=True)
    if job.created or tx.execute(ours).first() is not None:
        return job.id
    return engine.enqueue(tx, SYNC, request_id=request_id).id


def create_poster_rows(
    tx: Transaction, hosts: PosterHosts, new: Iterable[NewTitle], before: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """Create the missing rows of posters; return the columns of a title for each address that was given.

    ``before`` are the hashes of the titles' present posters. All rows are locked: new ones stay, old ones may go.
    """
    urls = {one.poster: hosts.normalised(one.poster) for one in new if one.poster and not is_local(one.poster)}
    hashes = {given: poster_hash(url) for given, url in urls.items()}
    rows = create_posters(tx, {hashes[given]: url for given, url in urls.items()}, also=before)
    columns = {}
    for given, url in urls.items():
        row = rows[hashes[given]]
        # Where the poster is from, and where readers find it now.
        columns[given] = {
            "poster_source": url,
            "poster_hash": row.hash,
            "poster_url": LOCAL_PREFIX + row.file if row.file else url,
            "thumbnail_url": LOCAL_PREFIX + row.thumbnail if row.file and row.thumbnail else None,
        }
    return columns


def poster_columns_of(one: NewTitle, pictures: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the poster columns of a title; none when it was given no poster."""
    if one.poster is None:
        return {}
    ours = {"poster_source": None, "poster_hash": None, "poster_url": one.poster, "thumbnail_url": None}
    return pictures.get(one.poster, ours)


def _insert(tx: Transaction, new: Iterable[NewTitle], pictures: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """Insert the titles that do not exist; return their ids by identity."""
    empty = dict.fromkeys(("poster_source", "poster_hash", "poster_url", "thumbnail_url"))
    rows = [
        {
            "id": new_id(),
            "identity": one.identity,
            **{name: getattr(one, name) for name in ("bangumi_id", *NAMES, "year", "tmdb_id")},
            **empty,
            **poster_columns_of(one, pictures),
            "tmdb_found_by": "import" if one.tmdb_id else None,
            "due": bool(one.title_japanese) and not one.tmdb_id,
        }
        for one in sorted(new, key=lambda each: each.identity)
    ]
    insert = (sqlite if tx.dialect == SQLITE else postgresql).insert(titles)
    if not rows:
        return {}
    # Only titles that can be looked up are due.
    due_at = case((bindparam("due", type_=Boolean), NOW))
    given = insert.values(created_at=NOW, updated_at=NOW, tmdb_due_at=due_at)
    statement = given.on_conflict_do_nothing().returning(titles.c.id, titles.c.identity)
    return {row.identity: str(row.id) for row in tx.execute(statement, rows)}


def _change(
    row: Row[Any],
    one: NewTitle,
    pictures: Mapping[str, dict[str, Any]],
    only_missing: bool,  # noqa: FBT001
) -> dict[str, Any]:
    """Return the columns of an existing title that change."""
    new = {name: getattr(one, name) for name in (*NAMES, "year") if getattr(one, name) is not None}
    picture = poster_columns_of(one, pictures)
    # The same source is the same poster, even after it was stored under another address.
    another = picture and (picture["poster_source"] or picture["poster_url"]) != (row.poster_source or row.poster_url)
    if another and not (only_missing and row.poster_url):
        new |= picture
    # Importing a file again does not undo what a person has chosen since.
    if one.tmdb_id is not None and row.tmdb_found_by != "person":
        new |= {"tmdb_id": one.tmdb_id, "tmdb_found_by": "import"}
    change = {name: value for name, value in new.items() if getattr(row, name) != value}
    if only_missing:
        change = {name: value for name, value in change.items() if getattr(row, name) is None or name in picture}
    after = {**row._asdict(), **change}
    identified = "tmdb_found_by" in change or "tmdb_id" in change
    if identified:
        change |= {"tmdb_due_at": None, "tmdb_candidates": None}
    elif change.keys() & {*NAMES, "year"} and after["title_japanese"] and after["tmdb_found_by"] is None:
        # The title may be found by its new names.
        change |= {"tmdb_due_at": NOW}
    completed = change and after["title_japanese"] and after["year"]
    if {"tmdb": identified, "poster": "poster_url" in change, "bangumi": completed}.get(row.error_of):
        # The field that the error was about has changed, or is no longer needed.
        change |= NO_ERROR
    return change


def _request_subjects(
    tx: Transaction, engine: Engine, created: Mapping[str, str], wanted: Mapping[str, NewTitle], request_id: str | None
) -> None:
    """Queue a request to Bangumi for each new title of which little more than the id is known."""
    bare = [
        JobRequest(SUBJECT, {"bangumi_id": one.bangumi_id}, key=title_id, subject=title_id, request_id=request_id)
        for identity, title_id in sorted(created.items())
        if (one := wanted[identity]).bangumi_id is not None and not (one.title_japanese and one.year)
    ]
    engine.enqueue_many(tx, bare)


def _result(
    identity: str, created: Mapping[str, str], found: Mapping[str, Row[Any]], changed: Mapping[str, dict[str, Any]]
) -> WrittenTitle:
    if identity in created:
        return WrittenTitle(created[identity], "created")
    if identity not in found:
        raise StateConflict("A title was deleted while it was being written.", hint="Send the request again.")
    return WrittenTitle(str(found[identity].id), "updated" if changed[identity] else "unchanged")


def remove_title(tx: Transaction, engine: Engine, title_id: str) -> None:
    """Remove a title, and its poster if no other title has it."""
    cancel_of_subjects(tx, [title_id], (SEARCH, SUBJECT), "its title was deleted")
    # Posters come before titles in the order of locks.
    lock_posters(tx, posters_of(tx, titles.c.id == title_id))
    gone = tx.execute(
        delete(titles).where(titles.c.id == title_id).returning(titles.c.id, titles.c.poster_hash)
    ).first()
    if gone is None:
        raise no_title(title_id)
    if gone.poster_hash is not None:
        remove_unused_posters(tx, engine, [gone.poster_hash])


# -- shows of TMDB ---------------------------------------------------------------------------------------------------


def choose_show(tx: Transaction, title_id: str, tmdb_id: int | None) -> Row[Any]:
    """Write a person's choice, which nothing overwrites; None means that TMDB does not have the title."""
    get_title(tx, title_id)
    cancel_of_subjects(tx, [title_id], [SEARCH], "a person chose the show")
    chosen = {"tmdb_id": tmdb_id, "tmdb_found_by": "person", "tmdb_candidates": None, "tmdb_due_at": None}
    _change_show(tx, title_id, **chosen, **cleared_error("tmdb"))
    return get_title(tx, title_id)


def forget_show(tx: Transaction, engine: Engine, title_id: str, request_id: str | None) -> Row[Any]:
    """Take a title's match back, and have it looked up again at once."""
    row = get_title(tx, title_id)
    due = {"tmdb_due_at": NOW if row.title_japanese else None}
    _change_show(tx, title_id, tmdb_id=None, tmdb_found_by=None, tmdb_candidates=None, tmdb_looked_up_at=None, **due)
    request_sync(tx, engine, request_id)
    return get_title(tx, title_id)


def _change_show(tx: Transaction, title_id: str, **change: Any) -> None:
    tx.execute(update(titles).where(titles.c.id == title_id).values(**change, updated_at=NOW))
