"""The job ``catalogue.year``: TMDB's list of the Japanese shows of one year, fetched once for all titles that need it.

Each run asks for one page, so that every request has a permit of the lane; the page that comes next is in the memo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, select, true
from sqlalchemy.dialects import postgresql, sqlite

from longtake.adapters.providers.tmdb import Show, Tmdb
from longtake.adapters.providers.trouble import Trouble, without_key
from longtake.capabilities.catalogue.exact_match import fresh_years
from longtake.capabilities.catalogue.names import fold
from longtake.capabilities.catalogue.source_calls import Asking
from longtake.capabilities.catalogue.tables import YEAR, titles, tmdb_shows, tmdb_years
from longtake.capabilities.catalogue.title_errors import note_trouble_of_many
from longtake.db import Database, Transaction
from longtake.db.bulk import ForMany, Given
from longtake.db.dialects import NOW, SQLITE
from longtake.engine.jobs import Job
from longtake.engine.kinds import JobKind, Settlement
from longtake.engine.outcomes import Done, Fail, Outcome, Snooze
from longtake.services.provider_calls.lanes import act_on_trouble


@dataclass(frozen=True, slots=True)
class Page:
    """A page that came; ``pages`` when it was the last."""

    shows: Sequence[Show]
    pages: int | None


class Years:
    """Fetches and settles lists of years."""

    def __init__(self, database: Database, tmdb: Tmdb, asking: Asking) -> None:
        self._database = database
        self._tmdb = tmdb
        self._asking = asking

    def kind(self) -> JobKind:
        """Return the job kind."""
        return JobKind(YEAR, self.run, self.settle, lane=self._tmdb.lane.name, time_limit=30.0, prepares=True)

    async def run(self, job: Job) -> Outcome:
        """Ask for the next page, unless another job has fetched the list since this one was asked for."""
        if not self._tmdb.configured:
            return without_key(self._tmdb.name)
        year, page = int(job.args["year"]), int((job.memo or {}).get("page", 1))
        if page == 1 and year in await self._database.read(fresh_years, {year}):
            return Done()
        found = await self._asking.ask(job, self._tmdb.japanese_shows_of, year, page)
        if isinstance(found, Outcome):
            return found
        if page >= found.pages:
            return Done(data=Page(found.shows, found.pages))
        return Snooze(0.0, memo={"page": page + 1}, data=Page(found.shows, None))

    def settle(self, tx: Transaction, settlements: Sequence[Settlement]) -> None:
        """Keep what came. A year whose list cannot be had counts as read and empty: its titles are searched for."""
        for one in sorted(settlements, key=lambda each: int(each.job.args["year"])):
            year, outcome = int(one.job.args["year"]), one.outcome
            match outcome:
                case Done(data=Page() as page) | Snooze(data=Page() as page):
                    _keep_shows(tx, year, one.job.id, page.shows)
                    if page.pages is not None:
                        _end_year(tx, year, one.job.id, page.pages)
                case Snooze(data=Trouble() as trouble):
                    note_trouble_of_many(tx, _waits_for(year), "tmdb", trouble.code, trouble.message)
                    act_on_trouble(tx, self._tmdb, trouble)
                case Fail(message=message):
                    _write_year(tx, year, pages=0, error=message)


def _waits_for(year: int) -> ColumnElement[bool]:
    """Return which titles are looked for in the list of this year."""
    beside = titles.c.year.between(year - 1, year + 1)
    return and_(beside, titles.c.tmdb_due_at <= NOW, titles.c.tmdb_found_by.is_(None))


def _keep_shows(tx: Transaction, year: int, job_id: str, shows: Sequence[Show]) -> None:
    rows = {show.id: _row(show) for show in shows}
    _KEEP.run(tx, [{"year": year, "fetched_by": job_id, **rows[one]} for one in sorted(rows)])


def _row(show: Show) -> dict[str, Any]:
    return {
        "tmdb_id": show.id,
        "folded_name": fold(show.original_name),
        "name": show.name,
        "original_name": show.original_name,
        "language": show.language,
        "first_air_date": show.first_air_date,
        "popularity": show.popularity,
    }


def _end_year(tx: Transaction, year: int, job_id: str, pages: int) -> None:
    # What none of this job's pages had is no longer in the list.
    tx.execute(delete(tmdb_shows).where(tmdb_shows.c.year == year, tmdb_shows.c.fetched_by != job_id))
    _write_year(tx, year, pages=pages, error=None)


def _write_year(tx: Transaction, year: int, *, pages: int, error: str | None) -> None:
    insert = (sqlite if tx.dialect == SQLITE else postgresql).insert(tmdb_years)
    values = {"pages": pages, "error": error, "fetched_at": NOW}
    tx.execute(insert.values(year=year, **values).on_conflict_do_update(index_elements=["year"], set_=values))


def _keep(given: Given, dialect: str) -> Any:
    insert = (sqlite if dialect == SQLITE else postgresql).insert(tmdb_shows)
    # SQLite takes the conflict's ON for a join's where there is no condition.
    insert = insert.from_select(list(given), select(*given.values()).where(true()))
    change = {name: insert.excluded[name] for name in given if name not in tmdb_shows.primary_key.columns}
    return insert.on_conflict_do_update(index_elements=["year", "tmdb_id"], set_=change)


#: Put together once: that takes longer than to run it.
_KEEP = ForMany(_keep, **{column.name: column.type for column in tmdb_shows.columns})
