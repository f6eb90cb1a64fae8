"""The job ``catalogue.search``: titles that no list of a year has are searched for by name, one request a run.

A hit that is not clearly the title becomes a candidate for a person to choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Float, bindparam, literal, select, update

from longtake.catalogue.asking import Asking
from longtake.catalogue.matching import REST_SECONDS, write_doubtful, write_found
from longtake.catalogue.names import fold
from longtake.catalogue.new_titles import NAMES
from longtake.catalogue.scoring import Candidate, accepted, rank, worth_a_look
from longtake.catalogue.tables import SEARCH, titles
from longtake.catalogue.troubles import note_trouble
from longtake.db import Database, Transaction
from longtake.db.dialects import NOW, later
from longtake.engine.jobs import Job
from longtake.engine.kinds import JobKind, Settlement
from longtake.engine.outcomes import Done, Fail, Outcome, Snooze
from longtake.provider_lanes import act_on_trouble
from longtake.providers.tmdb import Tmdb
from longtake.providers.trouble import Trouble, without_key


@dataclass(frozen=True, slots=True)
class Sought:
    """What a title is searched for by."""

    names: list[str]
    year: int | None


@dataclass(frozen=True, slots=True)
class Result:
    """What a search came to: the show, or what a person may choose from."""

    tmdb_id: int | None
    candidates: list[Candidate]


class Searching:
    """Runs and settles searches."""

    def __init__(self, database: Database, tmdb: Tmdb, asking: Asking) -> None:
        self._database = database
        self._tmdb = tmdb
        self._asking = asking

    def kind(self) -> JobKind:
        """Return the job kind."""
        return JobKind(SEARCH, self.run, self.settle, lane=self._tmdb.lane.name, time_limit=30.0)

    async def run(self, job: Job) -> Outcome:
        """Search under the next of the title's names."""
        sought = await self._database.read(find_sought, str(job.key))
        if sought is None:
            return Done()
        if not self._tmdb.configured:
            return without_key(self._tmdb.name)
        memo = {"name": 0, "candidates": [], **(job.memo or {})}
        if memo["name"] >= len(sought.names):
            return Done(data=Result(None, _candidates(memo)))
        shows = await self._asking.ask(job, self._tmdb.search, sought.names[memo["name"]])
        if isinstance(shows, Outcome):
            return shows
        ranked = rank(sought.names, sought.year, shows)
        if (best := accepted(ranked)) is not None:
            return Done(data=Result(best.tmdb_id, []))
        candidates = _merged(_candidates(memo), worth_a_look(ranked))
        if memo["name"] + 1 >= len(sought.names):
            return Done(data=Result(None, candidates))
        kept = {"name": memo["name"] + 1, "candidates": [one.as_dict() for one in candidates]}
        return Snooze(0.0, memo=kept)

    def settle(self, tx: Transaction, settlements: Sequence[Settlement]) -> None:
        """Write what was found, what is in doubt, and what went wrong."""
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


def find_sought(tx: Transaction, title_id: str) -> Sought | None:
    """Return what to search by; None when the title is gone or needs no search any more."""
    row = tx.execute(_FIND, {"title": title_id}).first()
    if row is None:
        return None
    names = {fold(name): name for column in reversed(NAMES) if (name := getattr(row, column))}
    return Sought(list(reversed(names.values())), row.year)


def _candidates(memo: dict[str, Any]) -> list[Candidate]:
    return [Candidate(**one) for one in memo["candidates"]]


def _merged(before: Sequence[Candidate], more: Sequence[Candidate]) -> list[Candidate]:
    best = {one.tmdb_id: one for one in sorted((*before, *more), key=lambda one: one.score)}
    return worth_a_look(sorted(best.values(), key=lambda one: -one.score))


#: Put together once: that takes longer than to run it.
_FIND = select(*(titles.c[one] for one in (*NAMES, "year"))).where(
    titles.c.id == bindparam("title"), titles.c.tmdb_due_at <= NOW
)
