"""The sync: queue a job for every row that is due, a hundred rows at a time; the table is never in memory.

``catalogue.sync`` starts two independent walks: ``catalogue.sync_posters`` over posters to fetch or check, and
``catalogue.sync_ids`` over titles to look up. So an outage of TMDB delays no poster. A walk keeps its place in its
memo, and any worker can continue it.

Titles are looked up by their exact names in TMDB's lists of the Japanese shows of a year, which ``catalogue.year``
fetches. One list serves all titles that need it. Each run of that job asks for one page, so that every request has a
permit of the lane; the next page is in the memo.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, ColumnElement, Float, Row, and_, delete, literal, or_, select, true
from sqlalchemy.dialects import postgresql, sqlite

from longtake.adapters.providers.tmdb import Show, Shows, Tmdb
from longtake.capabilities.catalogue.match_score import Candidate, fold, rank
from longtake.capabilities.catalogue.store import lock_titles, record_new_error, write_doubtful, write_found
from longtake.capabilities.catalogue.tables import (
    POSTER,
    SEARCH,
    SYNC,
    SYNC_IDS,
    SYNC_POSTERS,
    YEAR,
    posters,
    titles,
    tmdb_shows,
    tmdb_years,
)
from longtake.db import Database, Transaction
from longtake.db.dialects import NOW, SQLITE, later, text_to_instant
from longtake.db.prepared import ForMany, Given
from longtake.engine.engine import Engine
from longtake.engine.jobs import Job, JobRequest, Priority
from longtake.engine.kinds import JobKind, Settlement
from longtake.engine.outcomes import Done, Fail, Outcome, Snooze
from longtake.engine.tables import jobs
from longtake.services.provider_calls import Trouble, act_on_trouble

if TYPE_CHECKING:
    from longtake.capabilities.catalogue.capability import CatalogueContext

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
#: The list of a year is fetched again after a day, if a title needs it.
FRESH_SECONDS = 86_400.0
#: What is kept of a show besides its number, in the order of `Show`.
_SHOWN = ("name", "original_name", "language", "first_air_date", "popularity")


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
        rows = await self._database.read(_due, _place(job), posters.c.due_at, posters.c.hash)
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
        shown = (titles.c.title_japanese, titles.c.year)
        due = await self._database.read(_due, _place(job), titles.c.tmdb_due_at, titles.c.id, *shown)
        if not due:
            return Done()
        matches = await self._database.read(match_exactly, due)
        memo, missing = job.memo or {}, [str(year) for year in sorted(matches.missing_years)]
        # Titles that are still being searched for are due as well, and come again while the walk stays here.
        unknown = [one for one in matches.unknown if one not in memo.get("searching", ())]
        then = [JobRequest(SEARCH, key=one, subject=one, request_id=job.request_id) for one in unknown]
        then += [
            JobRequest(YEAR, {"year": int(year)}, key=year, subject=year, request_id=job.request_id) for year in missing
        ]
        before = memo.get("looks", {})
        looks = before | {year: before.get(year, 0) + 1 for year in missing}
        if any(looks[year] <= LIST_CHECKS for year in missing):
            kept = {**memo, "looks": looks, "searching": matches.unknown}
            return Snooze(LIST_SECONDS, memo=kept, data=matches, then=then)
        behind = {"after": [due[-1].due_at.isoformat(), due[-1].id], "looks": looks}
        return Snooze(0.0, memo=behind, progress=True, data=matches, then=then)

    def settle_ids(self, tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        for one in settlements:
            if isinstance(matches := one.outcome.data, ListMatches):
                lock_titles(tx, [*matches.found, *matches.doubtful])
                write_found(tx, matches.found, "title")
                write_doubtful(tx, matches.doubtful)


def _due(
    tx: Transaction, after: Sequence[Any] | None, due_at: Column[Any], key: Column[Any], *more: Column[Any]
) -> Sequence[Row[Any]]:
    """Return the next rows, by their key, in the order in which they became due."""
    due = select(key, due_at.label("due_at"), *more).where(due_at <= NOW)
    if after is not None:
        due = due.where(or_(due_at > after[0], (due_at == after[0]) & (key > after[1])))
    return tx.execute(due.order_by(due_at, key).limit(CHUNK)).all()


def _place(job: Job) -> Sequence[Any] | None:
    """Return the row after which the walk continues."""
    after = (job.memo or {}).get("after")
    return None if after is None else (text_to_instant(after[0]), after[1])


def _running_walks(tx: Transaction) -> list[str]:
    return list(tx.execute(select(jobs.c.kind).where(jobs.c.kind.in_(WALKS), jobs.c.key == WALK_KEY)).scalars())


# -- looking titles up -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ListMatches:
    """What the lists say about some titles, and which lists are missing before more can be said."""

    found: dict[str, int] = field(default_factory=dict)
    doubtful: dict[str, list[Candidate]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    missing_years: set[int] = field(default_factory=set)


def match_exactly(tx: Transaction, due: Sequence[Row[Any]]) -> ListMatches:
    """Match exact original titles in the list of their year, then in the lists of the years beside it."""
    years = {year + step for one in due if (year := one.year) is not None for step in (-1, 0, 1)}
    known = set(fresh_years(tx, years))
    shows = _shows_named(tx, known, {fold(one.title_japanese) for one in due})
    matches = ListMatches()
    for one in due:
        if one.year is None:
            matches.unknown.append(one.id)
            continue
        for step in ((one.year,), (one.year - 1, one.year + 1)):
            if not known.issuperset(step):
                matches.missing_years |= set(step) - known
                break
            hits = [show for year in step for show in shows[year, fold(one.title_japanese)]]
            if hits:
                _add_hits(matches, one, hits)
                break
        else:
            matches.unknown.append(one.id)
    return matches


def _add_hits(matches: ListMatches, one: Row[Any], hits: Sequence[Show]) -> None:
    if len({show.id for show in hits}) == 1:
        matches.found[one.id] = hits[0].id
    else:
        matches.doubtful[one.id] = rank([one.title_japanese], one.year, hits)


def fresh_years(tx: Transaction, years: set[int]) -> list[int]:
    """Return those of the years whose list is known and not too old."""
    fresh = tmdb_years.c.fetched_at > later(literal(-FRESH_SECONDS, Float))
    return list(tx.execute(select(tmdb_years.c.year).where(tmdb_years.c.year.in_(years), fresh)).scalars())


def _shows_named(tx: Transaction, years: set[int], names: set[str]) -> Mapping[tuple[int, str], list[Show]]:
    named = select(tmdb_shows).where(tmdb_shows.c.year.in_(years), tmdb_shows.c.folded_name.in_(names))
    found: dict[tuple[int, str], list[Show]] = defaultdict(list)
    for row in tx.execute(named):
        found[row.year, row.folded_name].append(Show(row.tmdb_id, *(getattr(row, name) for name in _SHOWN)))
    return found


# -- fetching lists --------------------------------------------------------------------------------------------------


class YearLists:
    """The job kind ``catalogue.year``: fetches the list of a year and writes its shows."""

    def __init__(self, context: CatalogueContext) -> None:
        self._context = context
        self._tmdb = context.tmdb

    def kind(self) -> JobKind:
        return JobKind(YEAR, self.run, self.settle, lane=self._tmdb.lane.name, time_limit=30.0, permit="call")

    async def run(self, job: Job) -> Outcome:
        """Ask for the next page, unless another job fetched the list after this one was queued."""
        year, page = int(job.args["year"]), int((job.memo or {}).get("page", 1))
        if page == 1 and year in await self._context.database.read(fresh_years, {year}):
            return Done()
        found = await self._context.ask(job, self._tmdb, partial(self._tmdb.japanese_shows_of, year, page))
        if isinstance(found, Outcome):
            return found
        if page >= found.pages:
            return Done(data=found)
        return Snooze(0.0, memo={"page": page + 1}, progress=True, data=found)

    def settle(self, tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        """Keep the pages. A year whose list cannot be fetched counts as empty: its titles are searched for."""
        for one in sorted(settlements, key=lambda each: int(each.job.args["year"])):
            year, outcome = int(one.job.args["year"]), one.outcome
            match outcome:
                case Done(data=Shows() as page) | Snooze(data=Shows() as page):
                    _keep_shows(tx, year, one.job.id, page.shows)
                    if isinstance(outcome, Done):
                        _end_year(tx, year, one.job.id, page.pages)
                case Snooze(data=Trouble() as trouble):
                    record_new_error(tx, _waits_for(year), "tmdb", trouble.code, trouble.message)
                    act_on_trouble(tx, self._tmdb, trouble)
                case Fail(message=message):
                    _write_year(tx, year, pages=0, error=message)


def _waits_for(year: int) -> ColumnElement[bool]:
    """Return the condition for titles that are looked up in the list of this year."""
    beside = titles.c.year.between(year - 1, year + 1)
    return and_(beside, titles.c.tmdb_due_at <= NOW, titles.c.tmdb_found_by.is_(None))


def _keep_shows(tx: Transaction, year: int, job_id: str, shows: Sequence[Show]) -> None:
    rows = {}
    for show in sorted(shows, key=lambda one: one.id):
        row = {"year": year, "tmdb_id": show.id, "folded_name": fold(show.original_name), "fetched_by": job_id}
        rows[show.id] = row | {name: getattr(show, name) for name in _SHOWN}
    _KEEP.run(tx, list(rows.values()))


def _end_year(tx: Transaction, year: int, job_id: str, pages: int) -> None:
    # A show that none of this job's pages had is no longer in the list.
    tx.execute(delete(tmdb_shows).where(tmdb_shows.c.year == year, tmdb_shows.c.fetched_by != job_id))
    _write_year(tx, year, pages=pages, error=None)


def _write_year(tx: Transaction, year: int, *, pages: int, error: str | None) -> None:
    insert = (sqlite if tx.dialect == SQLITE else postgresql).insert(tmdb_years)
    values = {"pages": pages, "error": error, "fetched_at": NOW}
    tx.execute(insert.values(year=year, **values).on_conflict_do_update(index_elements=["year"], set_=values))


def _keep(given: Given, dialect: str) -> Any:
    insert = (sqlite if dialect == SQLITE else postgresql).insert(tmdb_shows)
    # Without a WHERE, SQLite reads the ON of the conflict as the ON of a join.
    insert = insert.from_select(list(given), select(*given.values()).where(true()))
    change = {name: insert.excluded[name] for name in given if name not in tmdb_shows.primary_key.columns}
    return insert.on_conflict_do_update(index_elements=["year", "tmdb_id"], set_=change)


#: Built once: building the statement takes longer than running it.
_KEEP = ForMany(_keep, **{column.name: column.type for column in tmdb_shows.columns})
