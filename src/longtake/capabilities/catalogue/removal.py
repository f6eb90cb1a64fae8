"""Removes titles and the posters no title has any more: rows at once, files by the job ``catalogue.remove``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, delete, or_, select

from longtake.adapters.storage.errors import StorageError
from longtake.adapters.storage.keys import poster_key
from longtake.capabilities.catalogue.queries import no_title
from longtake.capabilities.catalogue.store import files_of, lock_posters
from longtake.capabilities.catalogue.tables import POSTER, REMOVE, SEARCH, SUBJECT, posters, titles
from longtake.engine.control import cancel_of_subjects
from longtake.engine.jobs import Job, Priority
from longtake.engine.kinds import Exponential, JobKind
from longtake.engine.outcomes import Done, Outcome, Retry

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from longtake.adapters.storage import Storage
    from longtake.db import Database, Transaction
    from longtake.engine.engine import Engine

#: The job is tried until the files are gone.
MOST_ATTEMPTS = 10_000


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


class PosterRemoval:
    """The job kind ``catalogue.remove``: removes files of posters."""

    def __init__(self, database: Database, storage: Storage) -> None:
        self._database = database
        self._storage = storage

    def kind(self) -> JobKind:
        back_off = Exponential(first=5.0, most=3600.0)
        return JobKind(REMOVE, self.run, priority=Priority.LOW, max_attempts=MOST_ATTEMPTS, back_off=back_off)

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
