"""Rows of posters: locks, creation, and the outcomes of downloads, for the posters and for all titles that have them.

A transaction that writes titles with posters, stores posters or removes them locks the posters first, all at once, in
order of hash, and the titles after them, in order of id. So each transaction sees what the one before it wrote, and two
of them do not deadlock. SQLite has one writer at a time and needs no locks, so the statements leave them out there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Float, Row, Text, Update, bindparam, case, literal, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from longtake.adapters.storage.keys import GIF, JPEG, PNG, WEBP
from longtake.capabilities.catalogue.poster_fetcher import HASH_CHARACTERS, LOCAL_PREFIX
from longtake.capabilities.catalogue.tables import posters, titles
from longtake.capabilities.catalogue.title_errors import clear_error, cleared_error, record_error
from longtake.db.dialects import NOW, SQLITE, later
from longtake.db.prepared import ForMany, Given

if TYPE_CHECKING:
    from longtake.db import Transaction
    from longtake.engine.outcomes import Fail, Retry

#: The extensions a poster may have, the most likely first.
EXTENSIONS = (JPEG.extension, PNG.extension, WEBP.extension, GIF.extension)
#: After a failed download a poster rests for an hour, then twice as long each time, up to a week.
REST_FIRST, REST_MOST = 3_600.0, 7 * 86_400.0
_DOUBLINGS = 10


@dataclass(frozen=True, slots=True)
class PosterRow:
    """What a download needs to know of a poster."""

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
class StoredPoster:
    """A poster that is in our storage, as its row describes it."""

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


_STORED_COLUMNS = tuple(StoredPoster.__dataclass_fields__)


def stem_of(name: str, version: int) -> str:
    """Return what the file names of a version begin with."""
    return name if version == 1 else f"{name}-{version}"


def files_of(name: str, version: int) -> list[str]:
    """Return all file names a version may have, so that a file its row has forgotten is found as well."""
    stem = stem_of(name, version)
    return [*(f"{stem}.{one}" for one in EXTENSIONS), f"{stem}-small.webp"]


# -- locks -----------------------------------------------------------------------------------------------------------


def lock_posters(tx: Transaction, names: Iterable[str]) -> dict[str, Row[Any]]:
    """Lock those of the posters that exist until the commit, and return them as they are now."""
    wanted = sorted(set(names))
    if not wanted:
        return {}
    rows = tx.execute(select(posters).where(posters.c.hash.in_(wanted)).order_by(posters.c.hash).with_for_update())
    return {row.hash: row for row in rows}


def lock_with_titles(tx: Transaction, names: Iterable[str]) -> None:
    """Lock posters, then all titles that have one of them. Uses raw SQL, because every download passes here."""
    if tx.dialect != SQLITE:
        wanted = [sorted(names)]
        tx.sql("SELECT FROM posters WHERE hash = ANY(%s) ORDER BY hash FOR UPDATE", wanted)
        tx.sql("SELECT FROM titles WHERE poster_hash = ANY(%s) ORDER BY id FOR UPDATE", wanted)


def lock_titles(tx: Transaction, title_ids: Iterable[str]) -> None:
    """Lock all titles that a transaction will write."""
    if tx.dialect != SQLITE:
        tx.sql("SELECT FROM titles WHERE id = ANY(%s::uuid[]) ORDER BY id FOR UPDATE", [list(title_ids)])


def create_posters(tx: Transaction, urls: Mapping[str, str], also: Iterable[str]) -> dict[str, Row[Any]]:
    """Create the rows that are missing, by hash and address; return them and those of ``also``, all locked."""
    also, first = set(also), {"version": 0, "failures": 0, "due_at": NOW, "created_at": NOW}
    insert = (sqlite if tx.dialect == SQLITE else postgresql).insert(posters)
    while True:
        if urls:
            rows = [{"hash": name, "url": urls[name]} for name in sorted(urls)]
            tx.execute(insert.values(**first).on_conflict_do_nothing(), rows)
        found = lock_posters(tx, {*urls, *also})
        # A row that existed may be deleted before we have its lock; then it is created again.
        if urls.keys() <= found.keys():
            return found


# -- downloads -------------------------------------------------------------------------------------------------------


def find_posters(tx: Transaction, names: Sequence[str]) -> dict[str, PosterRow]:
    """Return those of the posters that are due, by hash.

    A poster that no title has any more, or that another job has fetched since, is left out.
    """
    return {row.hash: PosterRow(**row._asdict()) for row in tx.execute(_FIND, {"names": names})}


def write_stored(tx: Transaction, stored: Mapping[str, StoredPoster], check_seconds: float) -> None:
    """Write that posters are in our storage; their titles point there from now on."""
    _STORE.run(tx, [{"hash": name, "seconds": check_seconds, **_columns(one)} for name, one in stored.items()])
    paths = {name: (LOCAL_PREFIX + one.file, LOCAL_PREFIX + one.thumbnail) for name, one in stored.items()}
    _POINT.run(tx, [{"hash": name, "file": file, "thumbnail": small} for name, (file, small) in paths.items()])


def write_unchanged(tx: Transaction, names: Sequence[str], check_seconds: float) -> None:
    """Write that the sources still have the same posters, and clear their last errors."""
    if names:
        tx.execute(
            update(posters).where(posters.c.hash.in_(sorted(names))).values(**_fetched(literal(check_seconds, Float)))
        )
        clear_error(tx, titles.c.poster_hash.in_(sorted(names)), "poster")


def write_failed(tx: Transaction, failed: Mapping[str, Fail]) -> None:
    """Write why downloads failed, and let the posters rest; a poster stored before stays."""
    for name in sorted(failed):
        error = failed[name]
        times = {count: later(literal(_rest(count + 1), Float)) for count in range(_DOUBLINGS)}
        due_at = case(times, value=posters.c.failures, else_=later(literal(REST_MOST, Float)))
        change = {"error_code": error.code, "error": error.message, "checked_at": NOW, "due_at": due_at}
        tx.execute(update(posters).where(posters.c.hash == name).values(**change, failures=posters.c.failures + 1))
        record_error(tx, titles.c.poster_hash == name, "poster", error.code, error.message)


def write_retried(tx: Transaction, retried: Mapping[str, Retry]) -> None:
    """Write at titles why their posters are not there yet; the engine tries again."""
    for name in sorted(retried):
        record_error(tx, titles.c.poster_hash == name, "poster", retried[name].code, retried[name].message)


# -- files -----------------------------------------------------------------------------------------------------------


def names_file(tx: Transaction, file: str) -> bool:
    """Say whether a row names this file as its poster or thumbnail."""
    known = posters.c.hash == file[:HASH_CHARACTERS]
    return tx.execute(select(posters.c.hash).where(known, _has_file(file))).first() is not None


def forget_file(tx: Transaction, file: str) -> None:
    """Have a poster whose object is gone fetched again; its titles point to the source until then."""
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


def _columns(stored: StoredPoster) -> dict[str, Any]:
    return {one: getattr(stored, one) for one in _STORED_COLUMNS}


def _rest(failures: int) -> float:
    return min(REST_FIRST * 2.0 ** (failures - 1), REST_MOST)


#: Built once: building a statement takes longer than running it.
_FIND = select(*(posters.c[one] for one in PosterRow.__dataclass_fields__)).where(
    posters.c.hash.in_(bindparam("names", expanding=True)), posters.c.due_at <= NOW
)


def _store(given: Given, _dialect: str) -> Update:
    new = {one: given[one] for one in _STORED_COLUMNS}
    change = update(posters).where(posters.c.hash == given["hash"])
    return change.values(**new, **_fetched(given["seconds"]), stored_at=NOW)


def _point(given: Given, _dialect: str) -> Update:
    new = {"poster_url": given["file"], "thumbnail_url": given["thumbnail"], "updated_at": NOW}
    return update(titles).where(titles.c.poster_hash == given["hash"]).values(**new, **cleared_error("poster"))


_STORE = ForMany(_store, hash=Text(), seconds=Float(), **{one: posters.c[one].type for one in _STORED_COLUMNS})
_POINT = ForMany(_point, hash=Text(), file=Text(), thumbnail=Text())
