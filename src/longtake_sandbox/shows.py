"""The shows TMDB knows, found by id, by poster, by name, and by year and language."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from longtake_sandbox.title_words import Names

#: Answers about parts of names that are remembered.
REMEMBERED = 1024


@dataclass(frozen=True, slots=True)
class Show:
    """A show as TMDB has it."""

    id: int
    #: The English and the Chinese are translations; the Japanese need not be the original.
    names: Names
    original_name: str
    original_language: str
    first_air_date: date
    #: Empty: it has no poster.
    poster_file: str
    alternative_names: tuple[str, ...] = ()
    #: Whose cover changes together with its poster; 0 if nobody's.
    bangumi_id: int = 0

    @property
    def popularity(self) -> float:
        """A figure of no meaning, so that the order is another than that of the ids."""
        return self.id * 7_919 % 100_003 / 100

    def all_names(self) -> set[str]:
        """Return, normalised, every name a search finds it by."""
        found = (self.original_name, self.names.en, self.names.zh, *self.alternative_names)
        return {normalised(name) for name in found}


class Shows:
    """All shows; every list is in the order of popularity."""

    def __init__(self, shows: Iterable[Show]) -> None:
        ordered = sorted(shows, key=lambda show: (-show.popularity, show.id))
        self._by_id = {show.id: show for show in ordered}
        self._by_poster = {show.poster_file: show for show in ordered if show.poster_file}
        self._by_name: dict[str, list[Show]] = {}
        self._groups: dict[tuple[str, str], list[Show]] = {}
        self._by_part: OrderedDict[str, list[Show]] = OrderedDict()
        for show in ordered:
            for name in show.all_names():
                self._by_name.setdefault(name, []).append(show)
            for language in ("", show.original_language):
                for year in ("", str(show.first_air_date.year)):
                    self._groups.setdefault((language, year), []).append(show)
        # All names one after the other: one long text is looked through much faster than a list of names.
        self._names = list(self._by_name)
        self._text = "\n".join(self._names)
        self._starts: list[int] = []
        start = 0
        for name in self._names:
            self._starts.append(start)
            start += len(name) + 1

    def get(self, number: int) -> Show | None:
        return self._by_id.get(number)

    def of_poster(self, file: str) -> Show | None:
        return self._by_poster.get(file)

    def discover(self, language: str = "", year: str = "") -> list[Show]:
        """Return the shows of a language and a year; an empty word means any."""
        return self._groups.get((language, year), [])

    def search(self, query: str, year: str = "") -> list[Show]:
        """Return the shows that have this name; if there are none, those of which a name contains it."""
        wanted = normalised(query)
        if not wanted:
            return []
        found = self._by_name.get(wanted) or self._containing(wanted)
        return [show for show in found if not year or str(show.first_air_date.year) == year]

    def _containing(self, part: str) -> list[Show]:
        found = self._by_part.get(part)
        if found is None:
            numbers = {show.id for name in self._names_with(part) for show in self._by_name[name]}
            found = sorted((self._by_id[one] for one in numbers), key=lambda show: (-show.popularity, show.id))
            self._by_part[part] = found
            if len(self._by_part) > REMEMBERED:
                self._by_part.popitem(last=False)
        return found

    def _names_with(self, part: str) -> Iterable[str]:
        at = self._text.find(part)
        while at >= 0:
            place = bisect_right(self._starts, at) - 1
            yield self._names[place]
            at = self._text.find(part, self._starts[place] + len(self._names[place]))


def normalised(name: str) -> str:
    """Return a name without the differences that do not count: case, width, and how much space there is."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())
