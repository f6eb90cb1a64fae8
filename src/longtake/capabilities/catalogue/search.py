"""The job ``catalogue.search``: search TMDB by name for a title that no list of a year has, one request a run.

A search does not say by which of its names a show was found. So a show whose name differs from ours is taken only after
all its names were fetched, and one of them is ours. A hit that is not clearly the title becomes a candidate for a
person to choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Float, bindparam, literal, select, update

from longtake.batch_loader import BatchLoader
from longtake.capabilities.catalogue.match_score import (
    Candidate,
    accepted,
    fold,
    has_one_of,
    only_similar,
    rank,
    worth_a_look,
)
from longtake.capabilities.catalogue.new_titles import NAMES
from longtake.capabilities.catalogue.store import (
    UNKNOWN_SECONDS,
    lock_titles,
    record_error,
    write_doubtful,
    write_found,
)
from longtake.capabilities.catalogue.tables import SEARCH, titles
from longtake.db import Transaction
from longtake.db.dialects import NOW, later
from longtake.engine.engine import Engine
from longtake.engine.jobs import Job
from longtake.engine.kinds import JobKind, Settlement
from longtake.engine.outcomes import Done, Fail, Outcome, Snooze
from longtake.services.provider_calls import Trouble, act_on_trouble

if TYPE_CHECKING:
    from longtake.capabilities.catalogue.capability import CatalogueContext


class SearchTerms(NamedTuple):
    """What a title is searched by."""

    names: list[str]
    year: int | None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search: the show, or candidates for a person to choose from."""

    tmdb_id: int | None
    candidates: list[Candidate]


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """How far a search is, as its job remembers it."""

    #: The index of the name to search by next.
    name: int = 0
    candidates: list[Candidate] = field(default_factory=list)
    #: The show whose other names are fetched next.
    check: int | None = None

    def as_memo(self, terms: SearchTerms) -> dict[str, Any]:
        """Return it as the job's row holds it, with the terms it belongs to."""
        return {"of": list(terms), **asdict(self)}


class TitleSearch:
    """The job kind ``catalogue.search``: searches for titles and writes the outcomes."""

    def __init__(self, context: CatalogueContext) -> None:
        # Many jobs start at the same time: their titles are read together.
        self._terms = BatchLoader[str, SearchTerms](lambda ids: context.database.read(find_terms, ids))
        self._context = context
        self._tmdb = context.tmdb

    def kind(self) -> JobKind:
        return JobKind(SEARCH, self.run, self.settle, lane=self._tmdb.lane.name, time_limit=30.0, permit="call")

    async def run(self, job: Job) -> Outcome:
        """Search by the next of the title's names, or fetch all names of a show that may be it."""
        terms = await self._terms.load(str(job.key))
        if terms is None:
            return Done()
        progress = read_progress(job.memo or {}, terms)
        if progress.check is not None:
            return await self._check(job, terms, progress, progress.check)
        search = partial(self._tmdb.search, terms.names[progress.name])
        shows = await self._context.ask(job, self._tmdb, search)
        if isinstance(shows, Outcome):
            return shows
        candidates = _merge(progress.candidates, rank(terms.names, terms.year, shows))
        best = accepted(candidates)
        if best is None:
            return _next_name(terms, progress.name, candidates)
        if has_one_of(terms.names, (best.original_name, best.name)):
            return Done(data=SearchResult(best.tmdb_id, []))
        check = SearchProgress(progress.name, candidates, best.tmdb_id)
        return Snooze(0.0, memo=check.as_memo(terms), progress=True)

    async def _check(self, job: Job, terms: SearchTerms, progress: SearchProgress, show_id: int) -> Outcome:
        """Take the show if one of its names is ours; else it stays a candidate."""
        fetch = partial(self._tmdb.other_names, show_id)
        names = await self._context.ask(job, self._tmdb, fetch)
        if isinstance(names, Outcome):
            return names
        if has_one_of(terms.names, names):
            return Done(data=SearchResult(show_id, []))
        seen = [only_similar(one) if one.tmdb_id == show_id else one for one in progress.candidates]
        return _next_name(terms, progress.name, seen)

    def settle(self, tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        lock_titles(tx, [str(one.job.key) for one in settlements])
        found: dict[str, int] = {}
        doubtful: dict[str, Sequence[Candidate]] = {}
        failed: dict[str, Fail] = {}
        for one in settlements:
            title_id = str(one.job.key)
            match one.outcome:
                case Done(data=SearchResult(tmdb_id=int() as tmdb_id)):
                    found[title_id] = tmdb_id
                case Done(data=SearchResult(candidates=candidates)):
                    doubtful[title_id] = candidates
                case Fail() as failure:
                    failed[title_id] = failure
                case Snooze(data=Trouble() as trouble):
                    record_error(tx, titles.c.id == title_id, "tmdb", trouble.code, trouble.message)
                    act_on_trouble(tx, self._tmdb, trouble)
        write_found(tx, found, "search")
        write_doubtful(tx, doubtful)
        for title_id in sorted(failed):
            record_error(tx, titles.c.id == title_id, "tmdb", failed[title_id].code, failed[title_id].message)
            rest = later(literal(UNKNOWN_SECONDS, Float))
            unchosen = (titles.c.id == title_id, titles.c.tmdb_found_by.is_(None))
            tx.execute(update(titles).where(*unchosen).values(tmdb_due_at=rest, tmdb_looked_up_at=NOW))


def find_terms(tx: Transaction, title_ids: Sequence[str]) -> dict[str, SearchTerms]:
    """Return what to search by. Titles that are gone or need no search any more are left out."""
    found = {}
    for row in tx.execute(_FIND, {"titles": title_ids}):
        names = {fold(name): name for column in reversed(NAMES) if (name := getattr(row, column))}
        if names:
            found[str(row.id)] = SearchTerms(list(reversed(names.values())), row.year)
    return found


def read_progress(memo: dict[str, Any], terms: SearchTerms) -> SearchProgress:
    """Return how far a search is. After a change of the title's names or year it starts over."""
    if memo.get("of") != list(terms):
        return SearchProgress()
    candidates = [Candidate(**one) for one in memo["candidates"]]
    return SearchProgress(memo["name"], candidates, memo["check"])


def _next_name(terms: SearchTerms, name: int, candidates: list[Candidate]) -> Outcome:
    if name + 1 >= len(terms.names):
        return Done(data=SearchResult(None, candidates))
    return Snooze(0.0, memo=SearchProgress(name + 1, candidates).as_memo(terms), progress=True)


def _merge(before: Sequence[Candidate], more: Sequence[Candidate]) -> list[Candidate]:
    """Return all candidates found so far: a clear hit for one name may not be clear beside a hit for another."""
    # Scores do not depend on the name searched by, but a candidate found before may have been examined since.
    known = {one.tmdb_id: one for one in (*more, *before)}
    return worth_a_look(sorted(known.values(), key=lambda one: -one.score))


#: Built once: building the statement takes longer than running it.
_FIND = select(*(titles.c[one] for one in ("id", *NAMES, "year"))).where(
    titles.c.id.in_(bindparam("titles", expanding=True)), titles.c.tmdb_due_at <= NOW
)
