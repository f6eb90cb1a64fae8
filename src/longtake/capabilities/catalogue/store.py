"""Rows of posters and titles: locks, removal, errors, and the outcomes of downloads and look-ups.

A transaction that writes titles with posters, stores posters or removes them locks the posters first, all at once, in
order of hash, and the titles after them, in order of id. So each transaction sees what the one before it wrote, and two
of them do not deadlock. SQLite has one writer at a time and needs no locks, so the statements leave them out there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import orjson
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Float,
    Row,
    Text,
    Update,
    bindparam,
    case,
    cast,
    delete,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from longtake.adapters.storage.media_type import GIF, JPEG, PNG, WEBP
from longtake.capabilities.catalogue.match_score import Candidate
from longtake.capabilities.catalogue.poster_fetcher import HASH_CHARACTERS, LOCAL_PREFIX
from longtake.capabilities.catalogue.tables import POSTER, REMOVE, posters, titles
from longtake.db.dialects import NOW, SQLITE, Identifier, Json, later
from longtake.db.prepared import ForMany, Given
from longtake.engine.control import cancel_of_subjects

if TYPE_CHECKING:
    from longtake.db import Transaction
    from longtake.engine.engine import Engine
    from longtake.engine.outcomes import Fail, Retry

#: The extensions a poster may have, the most likely first.
EXTENSIONS = (JPEG.extension, PNG.extension, WEBP.extension, GIF.extension)
#: After a failed download a poster rests for an hour, then twice as long each time, up to a week.
REST_FIRST, REST_MOST = 3_600.0, 7 * 86_400.0
_DOUBLINGS = 10
#: A look-up that found nothing is repeated after a week.
UNKNOWN_SECONDS = 7 * 86_400.0


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


# -- removal ---------------------------------------------------------------------------------------------------------


def remove_unused_posters(tx: Transaction, engine: Engine, names: Iterable[str]) -> None:
    """Remove those of the posters that no title has any more."""
    found = lock_posters(tx, names)
    if not found:
        return
    # Only under the lock: a transaction that gave a title one of them held it before us, and has committed.
    unused = sorted(found.keys() - posters_of(tx, titles.c.poster_hash.in_(found)))
    if not unused:
        return
    # A download that is settled at this moment waits for our locks, and finds nothing to write.
    cancel_of_subjects(tx, unused, [POSTER], "its poster is no longer used", wait=False)
    tx.execute(delete(posters).where(posters.c.hash.in_(unused)))
    for name in unused:
        row = found[name]
        files = {*files_of(name, version=1), row.file, row.thumbnail} - {None}
        engine.enqueue(tx, REMOVE, {"files": sorted(files)})


def posters_of(tx: Transaction, which: ColumnElement[bool]) -> set[str]:
    """Return the hashes of these titles' posters."""
    return set(tx.execute(select(titles.c.poster_hash).where(which, titles.c.poster_hash.is_not(None))).scalars())


# -- errors ----------------------------------------------------------------------------------------------------------

ErrorSource = Literal["poster", "tmdb", "bangumi"]
NO_ERROR = dict.fromkeys(("error_code", "error", "error_at", "error_of"))


def record_error(tx: Transaction, which: ColumnElement[bool], of: ErrorSource, code: str, message: str) -> None:
    """Write at the titles what went wrong."""
    tx.execute(update(titles).where(which).values(error_of=of, error_code=code, error=message, error_at=NOW))


def record_new_error(tx: Transaction, which: ColumnElement[bool], of: ErrorSource, code: str, message: str) -> None:
    """Write the error at those titles that do not have it yet: every try may concern thousands.

    Titles locked by another transaction are skipped. Nothing depends on the error, so nothing waits for it.
    """
    new = or_(titles.c.error_of.is_distinct_from(of), titles.c.error_code != code, titles.c.error != message)
    free = select(titles.c.id).where(which, new).with_for_update(skip_locked=True)
    record_error(tx, titles.c.id.in_(free), of, code, message)


def clear_error(tx: Transaction, which: ColumnElement[bool], of: ErrorSource) -> None:
    """Clear errors of this source at the titles."""
    tx.execute(update(titles).where(which, titles.c.error_of == of).values(NO_ERROR))


def cleared_error(of: ErrorSource) -> dict[str, Any]:
    """Return column values that clear an error of this source and keep one of another."""
    return {name: case((titles.c.error_of == of, None), else_=titles.c[name]) for name in NO_ERROR}


# -- downloads -------------------------------------------------------------------------------------------------------


def find_posters(tx: Transaction, names: Sequence[str]) -> dict[str, Row[Any]]:
    """Return those of the posters that are due, by hash.

    A poster that no title has any more, or that another job has fetched since, is left out.
    """
    return {row.hash: row for row in tx.execute(_FIND, {"names": names})}


def write_stored(tx: Transaction, stored: Mapping[str, StoredPoster], check_seconds: float) -> None:
    """Write that posters are in our storage; their titles point there from now on."""
    _STORE.run(tx, [{"hash": name, "seconds": check_seconds, **asdict(one)} for name, one in stored.items()])
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
        times = {count: later(literal(min(REST_FIRST * 2.0**count, REST_MOST), Float)) for count in range(_DOUBLINGS)}
        due_at = case(times, value=posters.c.failures, else_=later(literal(REST_MOST, Float)))
        change = {"error_code": error.code, "error": error.message, "checked_at": NOW, "due_at": due_at}
        tx.execute(update(posters).where(posters.c.hash == name).values(**change, failures=posters.c.failures + 1))
        record_error(tx, titles.c.poster_hash == name, "poster", error.code, error.message)


def write_retried(tx: Transaction, retried: Mapping[str, Retry]) -> None:
    """Write at titles why their posters are not there yet; the engine tries again."""
    for name in sorted(retried):
        record_error(tx, titles.c.poster_hash == name, "poster", retried[name].code, retried[name].message)


# -- look-ups ---------------------------------------------------------------------------------------------------------


def write_found(tx: Transaction, found: Mapping[str, int], how: str) -> None:
    """Write the ids found for titles, which the caller has locked. A person's choice stays."""
    _FOUND.run(tx, [{"title": title, "show": show, "how": how} for title, show in found.items()])


def write_doubtful(tx: Transaction, doubtful: Mapping[str, Sequence[Candidate]]) -> None:
    """Write the candidates that a person may choose from; without any, the title counts as not found."""
    as_json = {title: orjson.dumps(some).decode() if some else None for title, some in doubtful.items()}
    _DOUBTFUL.run(tx, [{"title": title, "candidates": candidates} for title, candidates in as_json.items()])


def _looked_up(given: Given) -> Update:
    change = update(titles).where(titles.c.id == given["title"], titles.c.tmdb_found_by.is_(None))
    return change.values(tmdb_looked_up_at=NOW, updated_at=NOW, **cleared_error("tmdb"))


def _found(given: Given, _dialect: str) -> Update:
    new = {"tmdb_id": given["show"], "tmdb_found_by": given["how"]}
    return _looked_up(given).values(**new, tmdb_candidates=None, tmdb_due_at=None)


def _doubtful(given: Given, dialect: str) -> Update:
    rest = later(literal(UNKNOWN_SECONDS, Float))
    # Passed as text: PostgreSQL would unnest an array of lists into single elements.
    candidates = given["candidates"] if dialect == SQLITE else cast(given["candidates"], Json)
    return _looked_up(given).values(tmdb_candidates=candidates, tmdb_due_at=rest)


#: Built once: building a statement takes longer than running it.
_FOUND = ForMany(_found, title=Identifier(), show=BigInteger(), how=Text())
_DOUBTFUL = ForMany(_doubtful, title=Identifier(), candidates=Text())


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


#: Built once: building a statement takes longer than running it.
_FIND = select(posters).where(posters.c.hash.in_(bindparam("names", expanding=True)), posters.c.due_at <= NOW)


def _store(given: Given, _dialect: str) -> Update:
    new = {one: given[one] for one in _STORED_COLUMNS}
    change = update(posters).where(posters.c.hash == given["hash"])
    return change.values(**new, **_fetched(given["seconds"]), stored_at=NOW)


def _point(given: Given, _dialect: str) -> Update:
    new = {"poster_url": given["file"], "thumbnail_url": given["thumbnail"], "updated_at": NOW}
    return update(titles).where(titles.c.poster_hash == given["hash"]).values(**new, **cleared_error("poster"))


_STORE = ForMany(_store, hash=Text(), seconds=Float(), **{one: posters.c[one].type for one in _STORED_COLUMNS})
_POINT = ForMany(_point, hash=Text(), file=Text(), thumbnail=Text())
