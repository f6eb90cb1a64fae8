"""Rows of posters: what became of a picture, for all pictures of a batch and all titles that point to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Float, Text, Update, bindparam, case, literal, or_, select, update

from longtake.capabilities.catalogue.locks import lock_with_titles
from longtake.capabilities.catalogue.poster_urls import HASH_CHARACTERS, LOCAL_PREFIX
from longtake.capabilities.catalogue.tables import posters, titles
from longtake.capabilities.catalogue.title_errors import clear_trouble, note_trouble, without_trouble
from longtake.db.bulk import ForMany, Given
from longtake.db.dialects import NOW, later

if TYPE_CHECKING:
    from longtake.db import Transaction
    from longtake.engine.outcomes import Fail, Retry

#: A picture that could not be had rests for an hour, then twice as long each time, for a week at most.
REST_FIRST, REST_MOST = 3_600.0, 7 * 86_400.0
_DOUBLINGS = 10


@dataclass(frozen=True, slots=True)
class PosterRow:
    """What is known of a picture."""

    hash: str
    url: str
    file: str | None
    thumbnail: str | None
    version: int
    checksum: str | None
    fetched_from: str | None
    etag: str | None
    last_modified: str | None


@dataclass(frozen=True, slots=True)
class Stored:
    """A picture that is in our storage."""

    file: str
    thumbnail: str
    version: int
    size: int
    checksum: str
    width: int
    height: int
    fetched_from: str | None
    etag: str | None
    last_modified: str | None


def find_posters(tx: Transaction, names: Sequence[str]) -> dict[str, PosterRow]:
    """Return what is known of those of the pictures that are to be seen to.

    Left out is one that no title points to any more, or that another job has seen to since it was asked for.
    """
    return {row.hash: PosterRow(**row._asdict()) for row in tx.execute(_FIND, {"names": names})}


def note_stored(tx: Transaction, stored: Mapping[str, Stored], check_seconds: float) -> None:
    """Write that pictures are ours; titles point there from now on."""
    _STORE.run(tx, [{"hash": name, "seconds": check_seconds, **_columns(one)} for name, one in stored.items()])
    here = {name: (LOCAL_PREFIX + one.file, LOCAL_PREFIX + one.thumbnail) for name, one in stored.items()}
    _POINT.run(tx, [{"hash": name, "file": file, "thumbnail": small} for name, (file, small) in here.items()])


def note_unchanged(tx: Transaction, names: Sequence[str], check_seconds: float) -> None:
    """Write that the sources still have what we have; what went wrong the last time is over."""
    if names:
        tx.execute(
            update(posters).where(posters.c.hash.in_(sorted(names))).values(**_fetched(literal(check_seconds, Float)))
        )
        clear_trouble(tx, titles.c.poster_hash.in_(sorted(names)), "poster")


def note_failed(tx: Transaction, failed: Mapping[str, Fail]) -> None:
    """Write why pictures could not be had, and let them rest; one that we have already stays."""
    for name in sorted(failed):
        error = failed[name]
        times = {count: later(literal(_rest(count + 1), Float)) for count in range(_DOUBLINGS)}
        due_at = case(times, value=posters.c.failures, else_=later(literal(REST_MOST, Float)))
        change = {"error_code": error.code, "error": error.message, "checked_at": NOW, "due_at": due_at}
        tx.execute(update(posters).where(posters.c.hash == name).values(**change, failures=posters.c.failures + 1))
        note_trouble(tx, titles.c.poster_hash == name, "poster", error.code, error.message)


def note_retried(tx: Transaction, retried: Mapping[str, Retry]) -> None:
    """Write why pictures are not there yet; they are tried again by the engine."""
    for name in sorted(retried):
        note_trouble(tx, titles.c.poster_hash == name, "poster", retried[name].code, retried[name].message)


def names_file(tx: Transaction, file: str) -> bool:
    """Say whether a picture, or its small copy, is said to be in this file."""
    known = posters.c.hash == file[:HASH_CHARACTERS]
    return tx.execute(select(posters.c.hash).where(known, _has_file(file))).first() is not None


def forget_file(tx: Transaction, file: str) -> None:
    """Have a picture fetched again whose object is gone; titles point to its source until then."""
    change = {"file": None, "checksum": None, "thumbnail": None, "etag": None, "last_modified": None, "due_at": NOW}
    lost = (posters.c.hash == file[:HASH_CHARACTERS], _has_file(file))
    lock_with_titles(tx, [file[:HASH_CHARACTERS]])
    name = tx.execute(update(posters).where(*lost).values(**change).returning(posters.c.hash)).scalar()
    if name is not None:
        back = {"poster_url": titles.c.poster_source, "thumbnail_url": None, "updated_at": NOW}
        tx.execute(update(titles).where(titles.c.poster_hash == name).values(**back))


def _has_file(file: str) -> ColumnElement[bool]:
    return or_(posters.c.file == file, posters.c.thumbnail == file)


def _fetched(check_seconds: ColumnElement[float]) -> dict[str, Any]:
    due_at = later(check_seconds)
    return {"checked_at": NOW, "due_at": due_at, "failures": 0, "error_code": None, "error": None}


def _columns(stored: Stored) -> dict[str, Any]:
    return {one: getattr(stored, one) for one in Stored.__dataclass_fields__}


def _rest(failures: int) -> float:
    return min(REST_FIRST * 2.0 ** (failures - 1), REST_MOST)


#: Put together once: that takes longer than to run them.
_FIND = select(*(posters.c[one] for one in PosterRow.__dataclass_fields__)).where(
    posters.c.hash.in_(bindparam("names", expanding=True)), posters.c.due_at <= NOW
)


def _store(given: Given, _dialect: str) -> Update:
    new = {one: given[one] for one in Stored.__dataclass_fields__}
    change = update(posters).where(posters.c.hash == given["hash"])
    return change.values(**new, **_fetched(given["seconds"]), stored_at=NOW)


def _point(given: Given, _dialect: str) -> Update:
    new = {"poster_url": given["file"], "thumbnail_url": given["thumbnail"], "updated_at": NOW}
    return update(titles).where(titles.c.poster_hash == given["hash"]).values(**new, **without_trouble("poster"))


_STORE = ForMany(
    _store, hash=Text(), seconds=Float(), **{one: posters.c[one].type for one in Stored.__dataclass_fields__}
)
_POINT = ForMany(_point, hash=Text(), file=Text(), thumbnail=Text())
