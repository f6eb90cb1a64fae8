"""The jobs ``catalogue.poster`` and ``catalogue.remove``: fetch a poster into our storage, check it, remove its files.

The job's key is the hash of the poster's address, so over all workers there is one download of a poster at any time.
The object has the poster's own name: when a worker dies between object and row, the next one finds the object instead
of fetching it again. Another version has another name, which no cache confuses with the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import Row, or_, select, update

from longtake.adapters.decoder.errors import DecodersBusy
from longtake.adapters.storage import NewObject
from longtake.adapters.storage import Stored as StoredObject
from longtake.adapters.storage.errors import ObjectMissing, ObjectTooLarge, StorageError
from longtake.adapters.storage.keys import poster_key
from longtake.adapters.storage.media_type import WEBP, MediaType, media_type
from longtake.batch_loader import BatchLoader
from longtake.capabilities.catalogue.errors import InvalidTitle, PosterBroken, PosterError, PosterIo, PosterStatus
from longtake.capabilities.catalogue.new_titles import NewTitle, check_title
from longtake.capabilities.catalogue.poster_fetcher import MOST_BYTES, FetchedPoster, PosterHosts, is_local
from longtake.capabilities.catalogue.queries import no_title
from longtake.capabilities.catalogue.store import (
    EXTENSIONS,
    StoredPoster,
    cleared_error,
    files_of,
    find_posters,
    lock_titles,
    lock_with_titles,
    remove_unused_posters,
    stem_of,
    write_failed,
    write_retried,
    write_stored,
    write_unchanged,
)
from longtake.capabilities.catalogue.tables import POSTER, REMOVE, posters, titles
from longtake.capabilities.catalogue.titles import create_poster_rows, poster_columns_of
from longtake.db import Transaction
from longtake.db.dialects import NOW
from longtake.engine.control import hurry
from longtake.engine.jobs import Job, JobRequest, Priority
from longtake.engine.kinds import Exponential, JobKind, Settlement
from longtake.engine.outcomes import Done, Fail, Outcome, Retry, Snooze
from longtake.errors import LongtakeError

if TYPE_CHECKING:
    from longtake.capabilities.catalogue.capability import CatalogueContext
    from longtake.engine.engine import Engine

LANE = "catalogue.posters"
BACK_OFF = Exponential(first=5.0, most=60.0)
ATTEMPTS = 3
TIME_LIMIT = 120.0
#: Files are removed until they are gone.
REMOVAL_ATTEMPTS = 10_000
TOO_MANY = 429
BUSY_SECONDS = 2.0
DAY_SECONDS = 86_400.0
#: Pages rendered before may still show the superseded version for a day.
KEPT_SECONDS = DAY_SECONDS


# -- requests --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DownloadResult:
    """The result of one requested download: whether it was queued, or why it was refused."""

    title_id: str
    queued: bool = False
    refused: LongtakeError | None = None


def request_downloads(
    tx: Transaction, engine: Engine, hosts: PosterHosts, wanted: Sequence[tuple[str, str]], request_id: str | None
) -> list[DownloadResult]:
    """Give titles these posters, by id and address, and queue those that are not stored yet, ahead of any sync.

    A refused one does not keep out the others.
    """
    known = select(titles.c.id, titles.c.poster_hash).where(titles.c.id.in_([one for one, _ in wanted]))
    found = {str(row.id): row.poster_hash for row in tx.execute(known)}
    checked = [_check(title_id, url, title_id in found) for title_id, url in wanted]
    good = [one for one in checked if isinstance(one, NewTitle)]
    before = set(found.values()) - {None}
    columns = create_poster_rows(tx, hosts, good, before)
    lock_titles(tx, found)
    results: list[DownloadResult] = []
    missing: set[str] = set()
    for (title_id, _url), one in zip(wanted, checked, strict=True):
        if not isinstance(one, NewTitle):
            results.append(DownloadResult(title_id, refused=one))
            continue
        picture = poster_columns_of(one, columns)
        new = {**picture, **cleared_error("poster"), "updated_at": NOW}
        tx.execute(update(titles).where(titles.c.id == title_id).values(new))
        queued = not is_local(str(picture["poster_url"]))
        if queued:
            missing.add(picture["poster_hash"])
        results.append(DownloadResult(title_id, queued=queued))
    # Those before, and those of titles that were named again.
    remove_unused_posters(tx, engine, before | {picture["poster_hash"] for picture in columns.values()})
    _queue_downloads(tx, engine, sorted(missing), request_id)
    return results


def _queue_downloads(tx: Transaction, engine: Engine, names: Sequence[str], request_id: str | None) -> None:
    """Queue downloads of posters that are locked. One that runs is enough: it writes its outcome after this commit."""
    tx.execute(update(posters).where(posters.c.hash.in_(names)).values(due_at=NOW))
    new = [JobRequest(POSTER, key=name, subject=name, priority=Priority.HIGH, request_id=request_id) for name in names]
    engine.enqueue_many(tx, new)
    hurry(tx, POSTER, names)


def _check(title_id: str, url: str, exists: bool) -> NewTitle | LongtakeError:  # noqa: FBT001
    if not exists:
        return no_title(title_id)
    try:
        # A title needs a name to pass; the existing title has its own.
        new = check_title({"title_english": title_id, "poster": url})
    except LongtakeError as error:
        return error
    return new if new.poster is not None else InvalidTitle("The address of the poster is empty.", field="url")


# -- the job ---------------------------------------------------------------------------------------------------------


class PosterDownloader:
    """The job kind ``catalogue.poster``: downloads posters and writes the outcomes."""

    def __init__(self, context: CatalogueContext, check_days: int) -> None:
        # Many jobs start at the same time: their rows are read together.
        self._rows = BatchLoader[str, Row[Any]](lambda names: context.database.read(find_posters, names))
        self._context = context
        self._storage = context.storage
        self._fetcher = context.fetcher
        self._check_seconds = check_days * DAY_SECONDS

    def kind(self) -> JobKind:
        return JobKind(
            POSTER, self.run, self.settle, lane=LANE, time_limit=TIME_LIMIT, max_attempts=ATTEMPTS, back_off=BACK_OFF
        )

    async def run(self, job: Job) -> Outcome:
        """Take the poster from our storage, fetch it, or note that it has not changed."""
        row = await self._rows.load(str(job.key))
        if row is None:
            return Done()
        try:
            found = await self._find_or_fetch(row)
        except DecodersBusy as error:
            return Snooze(BUSY_SECONDS, code=error.code, message=error.message)
        except PosterError as error:
            if error.lasting:
                return Fail(error.code, error.message)
            return self._retry(row, error)
        if found is None:
            return Done(data="unchanged")
        superseded = bool(row.version) and found.version != row.version
        files = {"files": files_of(row.hash, row.version)}
        return Done(data=found, then=[JobRequest(REMOVE, files, delay=KEPT_SECONDS)] if superseded else [])

    def settle(self, tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        """Write the outcomes at the posters and at every title that has one of them."""
        outcomes = {str(one.job.key): one.outcome for one in settlements}
        # Also so that titles added at this moment are either seen here, or see what is written here.
        lock_with_titles(tx, outcomes)
        stored = {name: one.data for name, one in outcomes.items() if isinstance(one.data, StoredPoster)}
        unchanged = [name for name, one in outcomes.items() if one.data == "unchanged"]
        # Spread over a day, so that posters fetched together are not all checked together later.
        seconds = self._check_seconds + self._context.random.uniform(0.0, DAY_SECONDS)
        write_stored(tx, stored, seconds)
        write_unchanged(tx, unchanged, seconds)
        write_failed(tx, {name: one for name, one in outcomes.items() if isinstance(one, Fail)})
        write_retried(tx, {name: one for name, one in outcomes.items() if isinstance(one, Retry)})

    def _retry(self, row: Row[Any], error: PosterError) -> Retry:
        """Retry the download. Only Bangumi and TMDB may slow the lane down: other hosts have few posters."""
        if not isinstance(error, PosterStatus):
            return Retry(error.code, error.message)
        busy = error.status == TOO_MANY and self._context.hosts.is_main_source(row.url)
        return Retry(error.code, error.message, after=error.retry_after, slow_lane=busy)

    async def _find_or_fetch(self, row: Row[Any]) -> StoredPoster | None:
        """Return the poster; None when its source has not changed."""
        if row.version == 0 and (stored := await self._find_stored(row.hash)) is not None:
            return stored
        picture = await self._fetcher.fetch(row)
        return None if picture is None else await self._keep(row, picture)

    async def _keep(self, row: Row[Any], picture: FetchedPoster) -> StoredPoster:
        """Store the poster and its thumbnail; the same bytes as before keep their name."""
        if row.file and row.thumbnail and picture.checksum == row.checksum:
            return _stored(picture, row.file, row.thumbnail, row.version, row.checksum)
        version = row.version + 1
        stem = stem_of(row.hash, version)
        file, small = f"{stem}.{picture.media.extension}", f"{stem}-small.webp"
        written = await self._put({file: (picture.body, picture.media), small: (picture.thumbnail, WEBP)})
        return _stored(picture, file, small, version, written[0].checksum)

    async def _find_stored(self, name: str) -> StoredPoster | None:
        """Return the poster that is in our storage under this name, with any extension, if it is whole."""
        files = {poster_key(file): file for file in (f"{name}.{one}" for one in EXTENSIONS)}
        with _reporting("read", next(iter(files))):
            existing = await self._storage.existing(list(files))
        for key in existing:
            body = await self._read(key)
            media = None if body is None else media_type(body)
            if body is None or media is None or media.kind != "image":
                continue
            try:
                made = await self._fetcher.check(body, media)
            except PosterBroken:
                continue
            small = f"{name}-small.webp"
            await self._put({small: (made.picture, WEBP)})
            picture = FetchedPoster(body, media, made.width, made.height, made.picture)
            return _stored(picture, files[key], small, 1, picture.checksum)
        return None

    async def _read(self, key: str) -> bytes | None:
        with _reporting("read", key):
            try:
                return await self._storage.get(key, MOST_BYTES)
            except (ObjectMissing, ObjectTooLarge):
                # An object larger than any poster is not one, and is replaced.
                return None

    async def _put(self, files: Mapping[str, tuple[bytes, MediaType]]) -> Sequence[StoredObject]:
        new = [NewObject(poster_key(file), body, kind.content_type, file) for file, (body, kind) in files.items()]
        with _reporting("write", new[0].key):
            return await self._storage.put_all(new)


@contextmanager
def _reporting(operation: Literal["read", "write"], key: str) -> Iterator[None]:
    """Raise PosterIo for an error of our storage."""
    try:
        yield
    except StorageError as error:
        done = {"read": "read", "write": "written"}[operation]
        raise PosterIo(f"{key} could not be {done}: {error.message}", operation=operation, path=key) from None


def _stored(picture: FetchedPoster, file: str, small: str, version: int, checksum: str) -> StoredPoster:
    same = {name: getattr(picture, name) for name in ("width", "height", "etag", "last_modified")}
    return StoredPoster(file, small, version, len(picture.body), checksum, fetched_from=picture.url, **same)


# -- removal ---------------------------------------------------------------------------------------------------------


class PosterRemoval:
    """The job kind ``catalogue.remove``: removes files of posters."""

    def __init__(self, context: CatalogueContext) -> None:
        self._database = context.database
        self._storage = context.storage

    def kind(self) -> JobKind:
        back_off = Exponential(first=5.0, most=3600.0)
        return JobKind(REMOVE, self.run, priority=Priority.LOW, max_attempts=REMOVAL_ATTEMPTS, back_off=back_off)

    async def run(self, job: Job) -> Outcome:
        """Remove the files that no row names; a poster added again meanwhile keeps its files."""
        files = await self._database.read(_unnamed, job.args["files"])
        try:
            await self._storage.delete([poster_key(file) for file in files])
        except StorageError as error:
            return Retry(error.code, error.message)
        return Done()


def _unnamed(tx: Transaction, files: Sequence[str]) -> list[str]:
    # A poster that was added again has a row before it has a file: its files are left alone.
    hashes = {file.partition(".")[0].partition("-")[0] for file in files}
    named = or_(
        posters.c.file.in_(files), posters.c.thumbnail.in_(files), posters.c.hash.in_(hashes) & posters.c.file.is_(None)
    )
    rows = tx.execute(select(posters.c.hash, posters.c.file, posters.c.thumbnail).where(named)).all()
    kept = {name for row in rows for name in (row.file, row.thumbnail)}
    pending = {row.hash for row in rows if row.file is None}
    return [file for file in files if file not in kept and file.partition(".")[0].partition("-")[0] not in pending]
