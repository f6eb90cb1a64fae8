"""The animation titles of the world outside: what Bangumi lists, and what TMDB makes of the same titles.

A title's place decides everything about it, so that a larger catalogue begins with the smaller one, and every share
below holds in any part of it.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import date
from itertools import groupby
from typing import Literal

from longtake_sandbox.shows import Show, Shows
from longtake_sandbox.title_words import COUNT, Names, entirely_different, names, slightly_different

Kind = Literal[
    "exact",  # TMDB has the same original name in the same year
    "year",  # the same original name, but of the year before or after
    "alias",  # another original name; ours is one of the alternative names
    "ambiguous",  # two shows of the same name and year
    "absent",  # TMDB does not know it
]
#: The kinds of twenty titles in a row.
KINDS: tuple[Kind, ...] = (
    *("exact",) * 7, "year", "alias", "ambiguous", *("exact",) * 7, "year", "alias", "absent",
)  # fmt: skip
FIRST_YEAR, LAST_YEAR = 1990, 2026
#: Has no factor in common with the number of kinds, so that each year has titles of every kind.
YEARS = LAST_YEAR - FIRST_YEAR + 1
FIRST_BANGUMI_ID, FIRST_TMDB_ID, FIRST_NOISE_ID = 100_003, 60_000, 10_000
#: TMDB knows more than Bangumi lists: in each year so many shows, every fourth of them not Japanese.
NOISE_OF_A_YEAR = 60
OTHER_LANGUAGES = ("zh", "ko", "en")
#: A calendar takes whole years, the newest first, until it has enough; of a large year only a part.
CALENDAR_LEAST, CALENDAR_MOST = 40, 60


@dataclass(frozen=True, slots=True)
class Title:
    """A title as Bangumi has it, and which shows at TMDB it might be."""

    place: int
    bangumi_id: int
    names: Names
    air_date: date
    #: The part of the cover's address that is the same for all sizes.
    cover_file: str
    kind: Kind
    tmdb_ids: tuple[int, ...]

    @property
    def tmdb_id(self) -> int | None:
        """The show it is; None if there is none, or if nobody can tell which."""
        return self.tmdb_ids[0] if len(self.tmdb_ids) == 1 else None


@dataclass(slots=True)
class Catalogue:
    """All titles in the order of their ids, and all shows."""

    titles: list[Title]
    shows: Shows
    calendar: list[Title] = field(init=False)
    _by_id: dict[int, Title] = field(init=False)
    _by_cover: dict[str, Title] = field(init=False)

    def __post_init__(self) -> None:
        self._by_id = {title.bangumi_id: title for title in self.titles}
        self._by_cover = {title.cover_file: title for title in self.titles}
        self.calendar = _calendar(self.titles)

    def title(self, bangumi_id: int) -> Title | None:
        return self._by_id.get(bangumi_id)

    def title_of_cover(self, file: str) -> Title | None:
        return self._by_cover.get(file)

    def after(self, bangumi_id: int, limit: int | None) -> list[Title]:
        """Return the titles that come after an id."""
        start = bisect_right(self.titles, bangumi_id, key=lambda title: title.bangumi_id)
        return self.titles[start : None if limit is None else start + limit]


def make_catalogue(count: int, seed: int) -> Catalogue:
    """Make up so many titles, and the shows that belong to them and those that do not."""
    titles, shows = [], []
    for place in range(count):
        title, its_shows = _title(place, seed)
        titles.append(title)
        shows += its_shows
    shows += [_noise(number, seed) for number in range(NOISE_OF_A_YEAR * YEARS)]
    return Catalogue(titles, Shows(shows))


def _title(place: int, seed: int) -> tuple[Title, list[Show]]:
    kind, called = KINDS[place % len(KINDS)], names(place, seed)
    year = FIRST_YEAR + place % YEARS
    air_date = _day(year, place)
    token = _token("cover", place, seed)
    bangumi_id = FIRST_BANGUMI_ID + 7 * place
    cover_file = f"{token[0:2]}/{token[2:4]}/{bangumi_id}_{token[4:9]}.jpg"
    shows = [] if kind == "absent" else [_show(place, seed, kind, bangumi_id, air_date)]
    if kind == "ambiguous":
        shows.append(_show(place, seed, kind, bangumi_id, air_date, second=1))
    ids = tuple(show.id for show in shows)
    return Title(place, bangumi_id, called, air_date, cover_file, kind, ids), shows


def _show(place: int, seed: int, kind: Kind, bangumi_id: int, air_date: date, second: int = 0) -> Show:
    """Make what TMDB has of a title; an ambiguous one has a second show."""
    called = names(place, seed)
    original, day = called.ja, air_date
    alternative: tuple[str, ...] = ()
    if kind == "alias":
        slightly = place // len(KINDS) % 2 == 0
        original = slightly_different(called, place // len(KINDS) // 2) if slightly else entirely_different(called)
        alternative = (called.ja,)
    elif kind == "year":
        year = air_date.year - 1 if place // len(KINDS) % 2 or air_date.year == LAST_YEAR else air_date.year + 1
        day = air_date.replace(year=year)
    elif second:
        day = _day(air_date.year, place + 1)
    number = FIRST_TMDB_ID + 3 * place + second
    return Show(
        number, called, original, "ja", day, f"{_token('poster', number, seed)}.jpg", alternative, bangumi_id
    )  # fmt: skip


def _noise(number: int, seed: int) -> Show:
    """Make a show that is no title; names are taken from the other end, where no title gets to."""
    called = names(COUNT - 1 - number, seed)
    language = "ja" if number % 4 else OTHER_LANGUAGES[number // 4 % len(OTHER_LANGUAGES)]
    original = {"ja": called.ja, "zh": called.zh}.get(language, called.en)
    # A few have no poster.
    poster = "" if number % 10 == 0 else f"{_token('noise', number, seed)}.jpg"
    day = _day(FIRST_YEAR + number % YEARS, number)
    return Show(FIRST_NOISE_ID + number, called, original, language, day, poster)


def _calendar(titles: list[Title]) -> list[Title]:
    newest = sorted(titles, key=lambda title: (-title.air_date.year, title.place))
    shown: list[Title] = []
    for _year, of_year in groupby(newest, key=lambda title: title.air_date.year):
        if len(shown) < CALENDAR_LEAST:
            shown += of_year
    return shown[:CALENDAR_MOST]


def _day(year: int, place: int) -> date:
    """Return a day of a year that every year has."""
    return date(year, 1 + place * 5 % 12, 1 + place * 11 % 28)


def _token(of: str, place: int, seed: int) -> str:
    return hashlib.blake2s(f"{of}/{place}/{seed}".encode(), digest_size=10).hexdigest()
