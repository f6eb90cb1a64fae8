"""From titles to ids of TMDB: the exact original title in the lists of its year and of those beside it.

And what is written when something was found, nothing, or too much.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from sqlalchemy import BigInteger, Float, Row, Text, Update, cast, literal, or_, select, update

from longtake.adapters.providers.tmdb import Show
from longtake.capabilities.catalogue.match_score import Candidate, rank
from longtake.capabilities.catalogue.names import fold
from longtake.capabilities.catalogue.tables import titles, tmdb_shows, tmdb_years
from longtake.capabilities.catalogue.title_errors import without_trouble
from longtake.db.bulk import ForMany, Given
from longtake.db.dialects import NOW, SQLITE, Identifier, Json, later

if TYPE_CHECKING:
    from longtake.db import Transaction

#: A look-up that found nothing is not repeated for so long.
REST_SECONDS = 7 * 86_400.0
#: The list of a year is asked for again after this, if a title needs it.
YEAR_SECONDS = 86_400.0


class Wanted(NamedTuple):
    """A title to be looked up."""

    id: str
    title_japanese: str
    year: int | None
    due_at: Any


@dataclass(slots=True)
class Looked:
    """What a look into the lists came to, and which lists are missing before more can be said."""

    found: dict[str, int] = field(default_factory=dict)
    doubtful: dict[str, list[Candidate]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    missing_years: set[int] = field(default_factory=set)


def due_titles(tx: Transaction, after: Sequence[Any] | None, limit: int) -> list[Wanted]:
    """Return the next titles that are to be looked up, in the order in which they became so."""
    due = select(titles.c.id, titles.c.title_japanese, titles.c.year, titles.c.tmdb_due_at)
    due = due.where(titles.c.tmdb_due_at <= NOW)
    if after is not None:
        moment, title_id = after
        due = due.where(or_(titles.c.tmdb_due_at > moment, (titles.c.tmdb_due_at == moment) & (titles.c.id > title_id)))
    rows = tx.execute(due.order_by(titles.c.tmdb_due_at, titles.c.id).limit(limit))
    return [Wanted(str(row.id), row.title_japanese, row.year, row.tmdb_due_at) for row in rows]


def look_into_lists(tx: Transaction, wanted: Sequence[Wanted]) -> Looked:
    """Look for exact original titles: in the year, and where that has none of the name, in those beside it."""
    years = {year + step for one in wanted if (year := one.year) is not None for step in (-1, 0, 1)}
    known = set(fresh_years(tx, years))
    shows = _shows_named(tx, known, {fold(one.title_japanese) for one in wanted})
    looked = Looked()
    for one in wanted:
        if one.year is None:
            looked.unknown.append(one.id)
            continue
        for step in ((one.year,), (one.year - 1, one.year + 1)):
            if not known.issuperset(step):
                looked.missing_years |= set(step) - known
                break
            hits = [show for year in step for show in shows[year, fold(one.title_japanese)]]
            if hits:
                _note(looked, one, hits)
                break
        else:
            looked.unknown.append(one.id)
    return looked


def _note(looked: Looked, one: Wanted, hits: Sequence[Show]) -> None:
    if len({show.id for show in hits}) == 1:
        looked.found[one.id] = hits[0].id
    else:
        looked.doubtful[one.id] = rank([one.title_japanese], one.year, hits)


def fresh_years(tx: Transaction, years: set[int]) -> list[int]:
    """Return those of the years whose lists are known, and not too old."""
    fresh = tmdb_years.c.fetched_at > later(literal(-YEAR_SECONDS, Float))
    return list(tx.execute(select(tmdb_years.c.year).where(tmdb_years.c.year.in_(years), fresh)).scalars())


def _shows_named(tx: Transaction, years: set[int], names: set[str]) -> Mapping[tuple[int, str], list[Show]]:
    named = select(tmdb_shows).where(tmdb_shows.c.year.in_(years), tmdb_shows.c.folded_name.in_(names))
    found: dict[tuple[int, str], list[Show]] = defaultdict(list)
    for row in tx.execute(named):
        found[row.year, row.folded_name].append(_show(row))
    return found


def _show(row: Row[Any]) -> Show:
    return Show(row.tmdb_id, row.name, row.original_name, row.language, row.first_air_date, row.popularity)


def write_found(tx: Transaction, found: Mapping[str, int], how: str) -> None:
    """Write the ids that were found, at titles that are locked; a person's choice stays."""
    _FOUND.run(tx, [{"title": title, "show": show, "how": how} for title, show in found.items()])


def write_doubtful(tx: Transaction, doubtful: Mapping[str, Sequence[Candidate]]) -> None:
    """Write from what a person may choose; with no candidate at all it is only noted that nothing was found."""
    _DOUBTFUL.run(tx, [{"title": title, "candidates": _as_json(some)} for title, some in doubtful.items()])


def _as_json(candidates: Sequence[Candidate]) -> str | None:
    return orjson.dumps([each.as_dict() for each in candidates]).decode() if candidates else None


def _looked_up(given: Given) -> Update:
    change = update(titles).where(titles.c.id == given["title"], titles.c.tmdb_found_by.is_(None))
    return change.values(tmdb_looked_up_at=NOW, updated_at=NOW, **without_trouble("tmdb"))


def _found(given: Given, _dialect: str) -> Update:
    new = {"tmdb_id": given["show"], "tmdb_found_by": given["how"]}
    return _looked_up(given).values(**new, tmdb_candidates=None, tmdb_due_at=None)


def _doubtful(given: Given, dialect: str) -> Update:
    rest = later(literal(REST_SECONDS, Float))
    # As text until here: an array of lists would be a table of their elements.
    candidates = given["candidates"] if dialect == SQLITE else cast(given["candidates"], Json)
    return _looked_up(given).values(tmdb_candidates=candidates, tmdb_due_at=rest)


#: Put together once: that takes longer than to run them.
_FOUND = ForMany(_found, title=Identifier(), show=BigInteger(), how=Text())
_DOUBTFUL = ForMany(_doubtful, title=Identifier(), candidates=Text())
