"""The sync: queue a job for every row that is due, a hundred rows at a time; the table is never in memory.

``catalogue.sync`` starts two independent walks: ``catalogue.sync_posters`` over posters to fetch or check, and
``catalogue.sync_ids`` over titles to look up. So an outage of TMDB delays no poster. A walk keeps its place in its
memo, and any worker can continue it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import or_, select

from longtake.adapters.providers.tmdb import Tmdb
from longtake.capabilities.catalogue.store import lock_titles
from longtake.capabilities.catalogue.tables import POSTER, SEARCH, SYNC, SYNC_IDS, SYNC_POSTERS, YEAR, posters
from longtake.capabilities.catalogue.titles import write_doubtful, write_found
from longtake.capabilities.catalogue.year_lists import ListMatches, due_titles, match_exactly
from longtake.db import Database, Transaction
from longtake.db.dialects import NOW, text_to_instant
from longtake.engine.engine import Engine
from longtake.engine.jobs import Job, JobRequest, Priority
from longtake.engine.kinds import JobKind, Settlement
from longtake.engine.outcomes import Done, Outcome, Snooze
from longtake.engine.schedules import Schedule
from longtake.engine.tables import jobs

CHUNK = 100
#: All walks of a kind have one key, so that one runs at a time, over all machines.
WALK_KEY = "walk"
WALKS = (SYNC_POSTERS, SYNC_IDS)
#: The argument of a sync that waits for the end of one walk, and then starts that walk only.
ONLY = "only"
#: How often a walk checks for missing lists, and how often at most for one list before it continues without.
LIST_SECONDS = 0.5
LIST_CHECKS = 1_200
BUSY_SECONDS = 1.0


class Sync:
    """The job kinds of a sync: the one that starts the walks, and the two walks."""

    def __init__(self, database: Database, tmdb: Tmdb) -> None:
        self._database = database
        self._tmdb = tmdb

    def kinds(self) -> list[JobKind]:
        return [
            JobKind(SYNC, self.begin),
            JobKind(SYNC_POSTERS, self.walk_posters),
            JobKind(SYNC_IDS, self.walk_titles, self.settle_ids),
        ]

    @staticmethod
    def schedule(minutes: int) -> list[Schedule]:
        """Return how often a sync starts by itself."""
        return [Schedule(SYNC, SYNC, every=minutes * 60.0)] if minutes else []

    async def begin(self, job: Job) -> Outcome:
        """Start both walks. A running walk may have passed the rows this sync is for, so it starts again afterwards.

        A job of its own does that. This one ends at once: a sync requested meanwhile needs both walks, and must not
        be merged with a job that has already started one.
        """
        later = job.args.get(ONLY)
        wanted = WALKS if later is None else (later,)
        running = await self._database.read(_running_walks)
        if later is not None and later in running:
            return Snooze(BUSY_SECONDS)
        then = [JobRequest(kind, key=WALK_KEY, request_id=job.request_id) for kind in wanted if kind not in running]
        after = [
            JobRequest(SYNC, {ONLY: kind}, key=f"after {kind}", delay=BUSY_SECONDS, request_id=job.request_id)
            for kind in wanted
            if kind in running
        ]
        return Done(then=then + after)

    async def walk_posters(self, job: Job) -> Outcome:
        """Queue downloads of the next posters that are due."""
        rows = await self._database.read(due_posters, _place(job), CHUNK)
        if not rows:
            return Done()
        # There may be thousands, and none is urgent: the few look-ups, which wait for TMDB, go first.
        then = [
            JobRequest(POSTER, key=row.hash, subject=row.hash, priority=Priority.LOW, request_id=job.request_id)
            for row in rows
        ]
        after = [rows[-1].due_at.isoformat(), rows[-1].hash]
        return Snooze(0.0, memo={"after": after}, progress=True, then=then)

    async def walk_titles(self, job: Job) -> Outcome:
        """Look up the next titles in the lists of their years, and queue the lists that are missing.

        Only titles that need a list wait for it. A walk waits for a missing list once; then its titles stay due for
        the next walk.
        """
        if not self._tmdb.configured:
            return Done()
        due = await self._database.read(due_titles, _place(job), CHUNK)
        if not due:
            return Done()
        matches = await self._database.read(match_exactly, due)
        memo, missing = job.memo or {}, sorted(matches.missing_years)
        # Titles that are still being searched for are due as well, and come again while the walk stays here.
        unknown = [one for one in matches.unknown if one not in memo.get("searching", ())]
        then = [JobRequest(SEARCH, key=one, subject=one, request_id=job.request_id) for one in unknown]
        then += [_year_job(year, job.request_id) for year in missing]
        before = memo.get("looks", {})
        looks = before | {str(year): before.get(str(year), 0) + 1 for year in missing}
        if any(looks[str(year)] <= LIST_CHECKS for year in missing):
            kept = {**memo, "looks": looks, "searching": matches.unknown}
            return Snooze(LIST_SECONDS, memo=kept, data=matches, then=then)
        behind = {"after": [due[-1].due_at.isoformat(), due[-1].id], "looks": looks}
        return Snooze(0.0, memo=behind, progress=True, data=matches, then=then)

    def settle_ids(self, tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        """Write what the lists said."""
        for one in settlements:
            if isinstance(matches := one.outcome.data, ListMatches):
                lock_titles(tx, [*matches.found, *matches.doubtful])
                write_found(tx, matches.found, "title")
                write_doubtful(tx, matches.doubtful)


def due_posters(tx: Transaction, after: Sequence[Any] | None, limit: int) -> list[Any]:
    """Return the next posters to fetch or check, in the order in which they became due."""
    due = select(posters.c.hash, posters.c.due_at).where(posters.c.due_at <= NOW)
    if after is not None:
        moment, name = after
        due = due.where(or_(posters.c.due_at > moment, (posters.c.due_at == moment) & (posters.c.hash > name)))
    return list(tx.execute(due.order_by(posters.c.due_at, posters.c.hash).limit(limit)).all())


def _place(job: Job) -> Sequence[Any] | None:
    """Return the row after which the walk continues."""
    after = (job.memo or {}).get("after")
    return None if after is None else (text_to_instant(after[0]), after[1])


def _year_job(year: int, request_id: str | None) -> JobRequest:
    return JobRequest(YEAR, {"year": year}, key=str(year), subject=str(year), request_id=request_id)


def _running_walks(tx: Transaction) -> list[str]:
    return list(tx.execute(select(jobs.c.kind).where(jobs.c.kind.in_(WALKS), jobs.c.key == WALK_KEY)).scalars())
