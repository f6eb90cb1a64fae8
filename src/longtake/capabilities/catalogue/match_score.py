"""How well a show of TMDB fits a title, as pure arithmetic, and whether that is enough to take it without a person.

An equal name counts most, then the year, then the language. A name that is only similar scores less than one that has
nothing in common with ours: the latter was found under another of its names, the former may well be a sequel. That
other name may equal ours or only be similar, so it has to be seen before the show is taken.
Popularity only breaks ties: of two shows with the same name and year the better known one is not more likely the right
one, so neither is taken.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from longtake.adapters.providers.tmdb import Show

SAME_NAME, FOUND_BY_ALIAS, SIMILAR_NAME = 60.0, 35.0, 25.0
#: Names less alike than this are different names.
LEAST_LIKENESS = 0.6
SAME_YEAR, NEXT_YEAR, OTHER_YEAR = 25.0, 15.0, -25.0
JAPANESE = 10.0
#: A candidate with this score, and this margin over the next, is taken.
ACCEPTED = 65.0
MARGIN = 10.0
#: A candidate below this score is not shown to a person.
WORTH_A_LOOK = 30.0
CANDIDATES_MOST = 5


@dataclass(frozen=True, slots=True)
class Candidate:
    """A show that may be the title."""

    tmdb_id: int
    name: str
    original_name: str
    first_air_date: str
    score: float


def fold(name: str) -> str:
    """Return the form in which names are compared: without differences of width, case and spaces."""
    return "".join(unicodedata.normalize("NFKC", name).casefold().split())


def rank(names: Sequence[str], year: int | None, shows: Iterable[Show]) -> list[Candidate]:
    """Return the shows as candidates, the best first; each show once."""
    found = {show.id: show for show in shows}
    scored = [(_score(names, year, show), show) for show in found.values()]
    scored.sort(key=lambda one: (-one[0], -one[1].popularity, one[1].id))
    return [Candidate(show.id, show.name, show.original_name, show.first_air_date, points) for points, show in scored]


def accepted(candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the candidate that is clearly ahead, if there is one."""
    if not candidates or candidates[0].score < ACCEPTED:
        return None
    if len(candidates) > 1 and candidates[0].score - candidates[1].score < MARGIN:
        return None
    return candidates[0]


def has_one_of(names: Sequence[str], theirs: Iterable[str]) -> bool:
    """Say whether one of a show's names is one of ours."""
    return not {fold(name) for name in names}.isdisjoint(fold(name) for name in theirs if name)


def only_similar(candidate: Candidate) -> Candidate:
    """Lower the score of a candidate none of whose names is ours: it was found by a similar name at best."""
    return replace(candidate, score=candidate.score - FOUND_BY_ALIAS + SIMILAR_NAME)


def worth_a_look(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates to show to a person."""
    return [one for one in candidates if one.score >= WORTH_A_LOOK][:CANDIDATES_MOST]


def _score(names: Sequence[str], year: int | None, show: Show) -> float:
    return _of_names(names, show) + _of_year(year, show.year) + (JAPANESE if show.language == "ja" else 0.0)


def _of_names(names: Sequence[str], show: Show) -> float:
    if has_one_of(names, (show.original_name, show.name)):
        return SAME_NAME
    theirs = [fold(name) for name in (show.original_name, show.name) if name]
    ours = [fold(name) for name in names]
    similar = any(_alike(one, other) for one in ours for other in theirs)
    return SIMILAR_NAME if similar else FOUND_BY_ALIAS


def _alike(one: str, other: str) -> bool:
    return one in other or other in one or SequenceMatcher(None, one, other).ratio() >= LEAST_LIKENESS


def _of_year(ours: int | None, theirs: int | None) -> float:
    if ours is None or theirs is None:
        return 0.0
    return {0: SAME_YEAR, 1: NEXT_YEAR}.get(abs(ours - theirs), OTHER_YEAR)
