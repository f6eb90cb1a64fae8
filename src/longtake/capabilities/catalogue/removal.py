"""Titles that go, and posters that nobody points to any more: rows first, files after, by ``catalogue.remove``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, delete, or_, select

from longtake.adapters.storage.keys import poster_key
from longtake.capabilities.catalogue.locks import cancel_downloads, lock_posters
from longtake.capabilities.catalogue.posters import EXTENSIONS
from longtake.capabilities.catalogue.tables import REMOVE, SEARCH, SUBJECT, posters, titles
from longtake.engine.control import cancel_of_subject
from longtake.engine.jobs import Job, Priority
from longtake.engine.kinds import Exponential, JobKind
from longtake.engine.outcomes import Done, Outcome, Retry
from longtake.errors import NotFound, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from longtake.adapters.storage import Storage
    from longtake.db import Database, Transaction
    from longtake.engine.engine import Engine

#: Their end is that they are gone, not a number of tries.
MOST_ATTEMPTS = 10_000


def remove_title(tx: Transaction, engine: Engine, title_id: str) -> None:
    """Remove a title, and its poster if no other title has the same."""
    cancel_of_subject(tx, title_id, (SEARCH, SUBJECT), "its title was deleted")
    # Pictures come before titles in the order of locks.
    lock_posters(tx, posters_of(tx, titles.c.id == title_id))
    gone = tx.execute(
        delete(titles).where(titles.c.id == title_id).returning(titles.c.id, titles.c.poster_hash)
    ).first()
    if gone is None:
        raise NotFound(f"There is no title {title_id!r}.", hint="`longtake catalogue list` shows those there are.")
    if gone.poster_hash is not None:
        remove_unused_posters(tx, engine, [gone.poster_hash])


def remove_unused_posters(tx: Transaction, engine: Engine, names: Iterable[str]) -> None:
    """Remove those of the pictures that no title points to any more."""
    there = lock_posters(tx, names)
    if not there:
        return
    # Looked for only now: whoever pointed a title to one of them had its lock before us, and has committed.
    unused = sorted(there.keys() - posters_of(tx, titles.c.poster_hash.in_(there)))
    if not unused:
        return
    cancel_downloads(tx, unused)
    tx.execute(delete(posters).where(posters.c.hash.in_(unused)))
    for name in unused:
        row = there[name]
        files = {*(f"{name}.{one}" for one in EXTENSIONS), f"{name}-small.webp", row.file, row.thumbnail} - {None}
        engine.enqueue(tx, REMOVE, {"files": sorted(files)})


def posters_of(tx: Transaction, which: ColumnElement[bool]) -> set[str]:
    """Return the pictures that these titles point to."""
    return set(tx.execute(select(titles.c.poster_hash).where(which, titles.c.poster_hash.is_not(None))).scalars())


class Removing:
    """Removes files of posters."""

    def __init__(self, database: Database, storage: Storage) -> None:
        self._database = database
        self._storage = storage

    def kind(self) -> JobKind:
        """Return the job kind."""
        back_off = Exponential(first=5.0, most=3600.0)
        return JobKind(REMOVE, self.run, priority=Priority.LOW, max_attempts=MOST_ATTEMPTS, back_off=back_off)

    async def run(self, job: Job) -> Outcome:
        """Remove the files that no row names; one that was brought back meanwhile stays."""
        files = await self._database.read(_unnamed, job.args["files"])
        try:
            await self._storage.delete([poster_key(file) for file in files])
        except StorageError as error:
            return Retry(error.code, error.message)
        return Done()


def _unnamed(tx: Transaction, files: Sequence[str]) -> list[str]:
    # A picture that is wanted again has a row before it has a file: nothing of it is touched then.
    hashes = {file.partition(".")[0].partition("-")[0] for file in files}
    named = or_(
        posters.c.file.in_(files), posters.c.thumbnail.in_(files), posters.c.hash.in_(hashes) & posters.c.file.is_(None)
    )
    rows = tx.execute(select(posters.c.hash, posters.c.file, posters.c.thumbnail).where(named)).all()
    kept = {name for row in rows for name in (row.file, row.thumbnail)}
    pending = {row.hash for row in rows if row.file is None}
    return [file for file in files if file not in kept and file.partition(".")[0].partition("-")[0] not in pending]
