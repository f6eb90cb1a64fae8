"""The job ``catalogue.poster``: bring one picture into our storage, or ask whether it has changed since.

Its key is the hash of the picture's address, so of one picture there is one download at any time, over all workers.
The object has the picture's own name: a worker that died between object and row leaves what the next one finds and
takes, instead of fetching it again. Another version of the picture has another name, which no cache confuses with it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from longtake.adapters.storage import NewObject, Storage
from longtake.adapters.storage import Stored as StoredObject
from longtake.adapters.storage.keys import poster_key
from longtake.adapters.storage.media_type import GIF, JPEG, PNG, WEBP, MediaType, media_type
from longtake.batch_loader import BatchLoader
from longtake.capabilities.catalogue.locks import lock_with_titles
from longtake.capabilities.catalogue.poster_fetcher import Known, Picture, PosterFetcher
from longtake.capabilities.catalogue.poster_store import (
    PosterRow,
    Stored,
    find_posters,
    note_failed,
    note_retried,
    note_stored,
    note_unchanged,
)
from longtake.capabilities.catalogue.poster_urls import PosterHosts
from longtake.capabilities.catalogue.tables import POSTER, REMOVE
from longtake.db import Database, Transaction
from longtake.engine.jobs import Job, JobRequest
from longtake.engine.kinds import Exponential, JobKind, Settlement
from longtake.engine.lanes import Lane
from longtake.engine.outcomes import Done, Fail, Outcome, Retry, Snooze
from longtake.errors import (
    DecodersBusy,
    ObjectMissing,
    ObjectTooLarge,
    PosterBroken,
    PosterError,
    PosterIo,
    PosterStatus,
    StorageError,
)

LANE = "catalogue.posters"
BACK_OFF = Exponential(first=5.0, most=60.0)
ATTEMPTS = 3
TIME_LIMIT = 120.0
#: What a poster may end with, the most likely first.
EXTENSIONS = (JPEG.extension, PNG.extension, WEBP.extension, GIF.extension)
MOST_BYTES = 20_000_000
TOO_MANY = 429
BUSY_SECONDS = 2.0
#: Pages that were rendered before may still show the version before.
KEPT_SECONDS = 86_400.0


def poster_lane(at_once: int) -> Lane:
    """Return the lane of downloads; 0 for no limit."""
    return Lane(LANE, max_running=at_once or None)


def files_of(name: str, version: int) -> list[str]:
    """Return all files that a version of a picture may have: also one that its row has forgotten."""
    stem = _stem(name, version)
    return [*(f"{stem}.{one}" for one in EXTENSIONS), f"{stem}-small.webp"]


def _stem(name: str, version: int) -> str:
    return name if version == 1 else f"{name}-{version}"


class Posters:
    """Runs and settles downloads of posters."""

    def __init__(
        self,
        database: Database,
        storage: Storage,
        fetcher: PosterFetcher,
        hosts: PosterHosts,
        check_days: int,
        source: random.Random,
    ) -> None:
        # Jobs begin many at a time.
        self._rows = BatchLoader[str, PosterRow](lambda names: database.read(find_posters, names))
        self._storage = storage
        self._fetcher = fetcher
        self._hosts = hosts
        self._check_seconds = check_days * 86_400.0
        self._random = source

    def kind(self) -> JobKind:
        """Return the job kind."""
        return JobKind(
            POSTER, self.run, self.settle, lane=LANE, time_limit=TIME_LIMIT, max_attempts=ATTEMPTS, back_off=BACK_OFF
        )

    async def run(self, job: Job) -> Outcome:
        """Find the picture in our storage, or fetch it, or find that it has not changed."""
        row = await self._rows.load(str(job.key))
        if row is None:
            return Done()
        try:
            found = await self._have(row)
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

    def settle(self, tx: Transaction, settlements: Sequence[Settlement]) -> None:
        """Write what became of the pictures; every title that points to one of them follows."""
        outcomes = {str(one.job.key): one.outcome for one in settlements}
        # Also so that titles which come in this moment are either seen here, or see what is written here.
        lock_with_titles(tx, outcomes)
        stored = {name: one.data for name, one in outcomes.items() if isinstance(one.data, Stored)}
        unchanged = [name for name, one in outcomes.items() if one.data == "unchanged"]
        # Spread over a day, so that what was fetched together is not asked about together for ever.
        seconds = self._check_seconds + self._random.uniform(0.0, 86_400.0)
        note_stored(tx, stored, seconds)
        note_unchanged(tx, unchanged, seconds)
        note_failed(tx, {name: one for name, one in outcomes.items() if isinstance(one, Fail)})
        note_retried(tx, {name: one for name, one in outcomes.items() if isinstance(one, Retry)})

    def _retry(self, row: PosterRow, error: PosterError) -> Retry:
        """Return when it is tried again. Of all hosts only those hold the lane back that it is there for."""
        if not isinstance(error, PosterStatus):
            return Retry(error.code, error.message)
        busy = error.status == TOO_MANY and self._hosts.is_asked_much(row.url)
        return Retry(error.code, error.message, after=error.retry_after, slow_lane=busy)

    async def _have(self, row: PosterRow) -> Stored | None:
        if row.version == 0 and (ours := await self._found_here(row.hash)) is not None:
            return ours
        known = Known(row.fetched_from or row.url, row.etag, row.last_modified) if row.file else None
        picture = await self._fetcher.fetch(row.url, known)
        return None if picture is None else await self._keep(row, picture)

    async def _keep(self, row: PosterRow, picture: Picture) -> Stored:
        """Write the picture and its small copy; the same bytes as before keep their name."""
        if row.file and row.thumbnail and picture.checksum == row.checksum:
            return _stored(picture, row.file, row.thumbnail, row.version, row.checksum)
        version = row.version + 1
        stem = _stem(row.hash, version)
        file, small = f"{stem}.{picture.media.extension}", f"{stem}-small.webp"
        written = await self._put({file: (picture.body, picture.media), small: (picture.thumbnail, WEBP)})
        return _stored(picture, file, small, version, written[0].checksum)

    async def _found_here(self, name: str) -> Stored | None:
        """Return the picture that lies in our storage under this name, whatever its ending, if it is whole."""
        files = {poster_key(file): file for file in (f"{name}.{one}" for one in EXTENSIONS)}
        for key in await self._there(list(files)):
            body = await self._body(key)
            media = None if body is None else media_type(body)
            if body is None or media is None or media.kind != "image":
                continue
            try:
                made = await self._fetcher.check(body, media)
            except PosterBroken:
                continue
            small = f"{name}-small.webp"
            await self._put({small: (made.picture, WEBP)})
            picture = Picture(body, media, made.width, made.height, made.picture)
            return _stored(picture, files[key], small, 1, picture.checksum)
        return None

    async def _there(self, keys: list[str]) -> list[str]:
        try:
            return await self._storage.existing(keys)
        except StorageError as error:
            raise _unreadable(keys[0], error) from None

    async def _body(self, key: str) -> bytes | None:
        try:
            return await self._storage.get(key, MOST_BYTES)
        except (ObjectMissing, ObjectTooLarge):
            # What is larger than any poster is none, and is replaced.
            return None
        except StorageError as error:
            raise _unreadable(key, error) from None

    async def _put(self, files: Mapping[str, tuple[bytes, MediaType]]) -> Sequence[StoredObject]:
        new = [NewObject(poster_key(file), body, kind.content_type, file) for file, (body, kind) in files.items()]
        try:
            return await self._storage.put_all(new)
        except StorageError as error:
            key = new[0].key
            raise PosterIo(f"{key} could not be written: {error.message}", operation="write", path=key) from None


def _unreadable(key: str, error: StorageError) -> PosterIo:
    return PosterIo(f"{key} could not be read: {error.message}", operation="read", path=key)


def _stored(picture: Picture, file: str, small: str, version: int, checksum: str) -> Stored:
    return Stored(
        file,
        small,
        version,
        len(picture.body),
        checksum,
        picture.width,
        picture.height,
        picture.url,
        picture.etag,
        picture.last_modified,
    )
