"""The sync: what is due goes to the jobs that do it, a hundred rows at a time; the table is never in memory.

``catalogue.sync`` begins two walks that do not wait for each other: ``catalogue.sync_posters`` over pictures that are
to be fetched or asked about, and ``catalogue.sync_ids`` over titles that are to be looked up. Trouble with TMDB delays
no poster. A walk goes on where it was, in its memo, whichever worker has it next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import or_, select

from longtake.adapters.providers.tmdb import Tmdb
from longtake.capabilities.catalogue.exact_match import Looked, due_titles, look_into_lists, write_doubtful, write_found
from longtake.capabilities.catalogue.locks import lock_titles
from longtake.capabilities.catalogue.tables import POSTER, SEARCH, SYNC, SYNC_IDS, SYNC_POSTERS, YEAR, posters
from longtake.db import Database, Transaction
from longtake.db.dialects import NOW, text_to_instant
from longtake.engine.jobs import Job, JobRequest, Priority
from longtake.engine.kinds import JobKind, Settlement
from longtake.engine.outcomes import Done, Outcome, Snooze
from longtake.engine.schedules import Schedule
from longtake.engine.tables import jobs

CHUNK = 100
#: A walk has one key: there is one at a time, over all machines.
WALK_KEY = "walk"
WALKS = (SYNC_POSTERS, SYNC_IDS)
#: The argument of a sync that waits for the end of a walk, and begins only that one.
ONLY = "only"
#: How often it is looked whether lists of years have come, and how often for one list before the walk goes on without.
YEARS_SECONDS = 0.5
YEARS_LOOKS = 1_200
BUSY_SECONDS = 1.0


class Syncing:
    """Begins walks, and walks."""

    def __init__(self, database: Database, tmdb: Tmdb) -> None:
        self._database = database
        self._tmdb = tmdb

    def kinds(self) -> list[JobKind]:
        """Return the job kinds."""
        return [
            JobKind(SYNC, self.begin),
            JobKind(SYNC_POSTERS, self.walk_posters),
            JobKind(SYNC_IDS, self.walk_titles, self.settle_ids),
        ]

    @staticmethod
    def schedule(minutes: int) -> list[Schedule]:
        """Return when it runs by itself."""
        return [Schedule(SYNC, SYNC, every=minutes * 60.0)] if minutes else []

    async def begin(self, job: Job) -> Outcome:
        """Begin both walks; one that is under way may have passed what this is for, so it is begun anew after it.

        A job of its own does that. This one ends at once: whoever asks for a sync meanwhile wants both walks, and must
        not be told to wait for one that has begun a walk already.
        """
        later = job.args.get(ONLY)
        wanted = WALKS if later is None else (later,)
        under_way = await self._database.read(_walks_under_way)
        if later is not None and later in under_way:
            return Snooze(BUSY_SECONDS)
        then = [JobRequest(kind, key=WALK_KEY, request_id=job.request_id) for kind in wanted if kind not in under_way]
        after = [
            JobRequest(SYNC, {ONLY: kind}, key=f"after {kind}", delay=BUSY_SECONDS, request_id=job.request_id)
            for kind in wanted
            if kind in under_way
        ]
        return Done(then=then + after)

    async def walk_posters(self, job: Job) -> Outcome:
        """Hand the next pictures that are due to the jobs that fetch them."""
        rows = await self._database.read(due_posters, _place(job), CHUNK)
        if not rows:
            return Done()
        # There may be thousands of them, and none is in a hurry: ids, which are few and wait on TMDB, go before.
        then = [
            JobRequest(POSTER, key=row.hash, subject=row.hash, priority=Priority.LOW, request_id=job.request_id)
            for row in rows
        ]
        return Snooze(0.0, memo={"after": [rows[-1].due_at.isoformat(), rows[-1].hash]}, then=then)

    async def walk_titles(self, job: Job) -> Outcome:
        """Look the next titles up in the lists of their years; have those lists fetched that are missing.

        Only titles that need a list wait for it, and a list that does not come is waited for once in a walk: such
        titles stay due, for the next one.
        """
        if not self._tmdb.configured:
            return Done()
        wanted = await self._database.read(due_titles, _place(job), CHUNK)
        if not wanted:
            return Done()
        looked = await self._database.read(look_into_lists, wanted)
        memo, missing = job.memo or {}, sorted(looked.missing_years)
        # Those whose search is not over are still due, and come again as long as the walk stays here.
        unknown = [one for one in looked.unknown if one not in memo.get("searching", ())]
        then = [JobRequest(SEARCH, key=one, subject=one, request_id=job.request_id) for one in unknown]
        then += [_year_job(year, job.request_id) for year in missing]
        before = memo.get("looks", {})
        looks = before | {str(year): before.get(str(year), 0) + 1 for year in missing}
        if any(looks[str(year)] <= YEARS_LOOKS for year in missing):
            kept = {**memo, "looks": looks, "searching": looked.unknown}
            return Snooze(YEARS_SECONDS, memo=kept, data=looked, then=then)
        behind = {"after": [wanted[-1].due_at.isoformat(), wanted[-1].id], "looks": looks}
        return Snooze(0.0, memo=behind, data=looked, then=then)

    def settle_ids(self, tx: Transaction, settlements: Sequence[Settlement]) -> None:
        """Write what the lists had."""
        for one in settlements:
            if isinstance(looked := one.outcome.data, Looked):
                lock_titles(tx, [*looked.found, *looked.doubtful])
                write_found(tx, looked.found, "title")
                write_doubtful(tx, looked.doubtful)


def due_posters(tx: Transaction, after: Sequence[Any] | None, limit: int) -> list[Any]:
    """Return the next pictures that are to be fetched or asked about, in the order in which they became so."""
    due = select(posters.c.hash, posters.c.due_at).where(posters.c.due_at <= NOW)
    if after is not None:
        moment, name = after
        due = due.where(or_(posters.c.due_at > moment, (posters.c.due_at == moment) & (posters.c.hash > name)))
    return list(tx.execute(due.order_by(posters.c.due_at, posters.c.hash).limit(limit)).all())


def _place(job: Job) -> Sequence[Any] | None:
    """Return after which row the walk goes on."""
    after = (job.memo or {}).get("after")
    return None if after is None else (text_to_instant(after[0]), after[1])


def _year_job(year: int, request_id: str | None) -> JobRequest:
    return JobRequest(YEAR, {"year": year}, key=str(year), subject=str(year), request_id=request_id)


def _walks_under_way(tx: Transaction) -> list[str]:
    return list(tx.execute(select(jobs.c.kind).where(jobs.c.kind.in_(WALKS), jobs.c.key == WALK_KEY)).scalars())
