"""The job ``catalogue.search``: titles that no list of a year has are searched for by name, one request a run.

A search does not say by which of its names a show was found. So one that has another name than ours is taken only when
all its names have been seen, and one of them is ours. A hit that is not clearly the title becomes a candidate for a
person to choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Float, bindparam, literal, select, update

from longtake.adapters.providers.tmdb import Tmdb
from longtake.adapters.providers.trouble import Trouble, without_key
from longtake.batch_loader import BatchLoader
from longtake.capabilities.catalogue.exact_match import REST_SECONDS, write_doubtful, write_found
from longtake.capabilities.catalogue.locks import lock_titles
from longtake.capabilities.catalogue.match_score import (
    Candidate,
    accepted,
    has_one_of,
    only_similar,
    rank,
    worth_a_look,
)
from longtake.capabilities.catalogue.names import fold
from longtake.capabilities.catalogue.new_titles import NAMES
from longtake.capabilities.catalogue.source_calls import Asking
from longtake.capabilities.catalogue.tables import SEARCH, titles
from longtake.capabilities.catalogue.title_errors import note_trouble
from longtake.db import Database, Transaction
from longtake.db.dialects import NOW, later
from longtake.engine.jobs import Job
from longtake.engine.kinds import JobKind, Settlement
from longtake.engine.outcomes import Done, Fail, Outcome, Snooze
from longtake.services.provider_calls.lanes import act_on_trouble


@dataclass(frozen=True, slots=True)
class Sought:
    """What a title is searched for by."""

    names: list[str]
    year: int | None

    def as_list(self) -> list[Any]:
        """Return it as a memo has it."""
        return [self.names, self.year]


@dataclass(frozen=True, slots=True)
class Result:
    """What a search came to: the show, or what a person may choose from."""

    tmdb_id: int | None
    candidates: list[Candidate]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is, as its job remembers it."""

    #: The place of the name that is searched for next.
    name: int = 0
    candidates: list[Candidate] = field(default_factory=list)
    #: The show of which all names are to be seen before anything else.
    check: int | None = None

    def as_memo(self, sought: Sought) -> dict[str, Any]:
        """Return it as the job's row has it, with what it belongs to."""
        candidates = [one.as_dict() for one in self.candidates]
        return {"of": sought.as_list(), "name": self.name, "candidates": candidates, "check": self.check}


class Searching:
    """Runs and settles searches."""

    def __init__(self, database: Database, tmdb: Tmdb, asking: Asking) -> None:
        # Jobs begin many at a time.
        self._titles = BatchLoader[str, Sought](lambda ids: database.read(find_sought, ids))
        self._tmdb = tmdb
        self._asking = asking

    def kind(self) -> JobKind:
        """Return the job kind."""
        return JobKind(SEARCH, self.run, self.settle, lane=self._tmdb.lane.name, time_limit=30.0, prepares=True)

    async def run(self, job: Job) -> Outcome:
        """Search under the next of the title's names, or look at all names of a show that may be it."""
        sought = await self._titles.load(str(job.key))
        if sought is None:
            return Done()
        if not self._tmdb.configured:
            return without_key(self._tmdb.name)
        progress = read_progress(job.memo or {}, sought)
        if progress.check is not None:
            return await self._check(job, sought, progress, progress.check)
        shows = await self._asking.ask(job, self._tmdb.search, sought.names[progress.name])
        if isinstance(shows, Outcome):
            return shows
        candidates = _merged(progress.candidates, rank(sought.names, sought.year, shows))
        best = accepted(candidates)
        if best is None:
            return _next_name(sought, progress.name, candidates)
        if has_one_of(sought.names, (best.original_name, best.name)):
            return Done(data=Result(best.tmdb_id, []))
        return Snooze(0.0, memo=Progress(progress.name, candidates, best.tmdb_id).as_memo(sought))

    async def _check(self, job: Job, sought: Sought, progress: Progress, show_id: int) -> Outcome:
        """Take a show that has one of our names among its others; else it is one from which a person may choose."""
        names = await self._asking.ask(job, self._tmdb.other_names, show_id)
        if isinstance(names, Outcome):
            return names
        if has_one_of(sought.names, names):
            return Done(data=Result(show_id, []))
        seen = [only_similar(one) if one.tmdb_id == show_id else one for one in progress.candidates]
        return _next_name(sought, progress.name, seen)

    def settle(self, tx: Transaction, settlements: Sequence[Settlement]) -> None:
        """Write what was found, what is in doubt, and what went wrong."""
        lock_titles(tx, [str(one.job.key) for one in settlements])
        found: dict[str, int] = {}
        doubtful: dict[str, Sequence[Candidate]] = {}
        failed: dict[str, Fail] = {}
        for one in settlements:
            title_id = str(one.job.key)
            match one.outcome:
                case Done(data=Result(tmdb_id=int() as tmdb_id)):
                    found[title_id] = tmdb_id
                case Done(data=Result(candidates=candidates)):
                    doubtful[title_id] = candidates
                case Fail() as failure:
                    failed[title_id] = failure
                case Snooze(data=Trouble() as trouble):
                    note_trouble(tx, titles.c.id == title_id, "tmdb", trouble.code, trouble.message)
                    act_on_trouble(tx, self._tmdb, trouble)
        write_found(tx, found, "search")
        write_doubtful(tx, doubtful)
        for title_id in sorted(failed):
            note_trouble(tx, titles.c.id == title_id, "tmdb", failed[title_id].code, failed[title_id].message)
            rest = later(literal(REST_SECONDS, Float))
            unchosen = (titles.c.id == title_id, titles.c.tmdb_found_by.is_(None))
            tx.execute(update(titles).where(*unchosen).values(tmdb_due_at=rest, tmdb_looked_up_at=NOW))


def find_sought(tx: Transaction, title_ids: Sequence[str]) -> dict[str, Sought]:
    """Return what to search by; left out are titles that are gone, or need no search any more."""
    found = {}
    for row in tx.execute(_FIND, {"titles": title_ids}):
        names = {fold(name): name for column in reversed(NAMES) if (name := getattr(row, column))}
        if names:
            found[str(row.id)] = Sought(list(reversed(names.values())), row.year)
    return found


def read_progress(memo: dict[str, Any], sought: Sought) -> Progress:
    """Return how far a search is; one that was begun under other names, or for another year, begins anew."""
    if memo.get("of") != sought.as_list():
        return Progress()
    candidates = [Candidate(**one) for one in memo["candidates"]]
    return Progress(memo["name"], candidates, memo["check"])


def _next_name(sought: Sought, name: int, candidates: list[Candidate]) -> Outcome:
    if name + 1 >= len(sought.names):
        return Done(data=Result(None, candidates))
    return Snooze(0.0, memo=Progress(name + 1, candidates).as_memo(sought))


def _merged(before: Sequence[Candidate], more: Sequence[Candidate]) -> list[Candidate]:
    """Return all that may be it: what is clear under one name may not be so beside what another has found."""
    # Points do not depend on the name that was searched for, but more may be known of one that was found before.
    known = {one.tmdb_id: one for one in (*more, *before)}
    return worth_a_look(sorted(known.values(), key=lambda one: -one.score))


#: Put together once: that takes longer than to run it.
_FIND = select(*(titles.c[one] for one in ("id", *NAMES, "year"))).where(
    titles.c.id.in_(bindparam("titles", expanding=True)), titles.c.tmdb_due_at <= NOW
)
