"""Titles to add or update, checked before anything is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from longtake.capabilities.catalogue.errors import InvalidTitle
from longtake.capabilities.catalogue.match_score import fold
from longtake.capabilities.catalogue.poster_fetcher import is_local
from longtake.validation import check_plain_text

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME_LIMIT = 300
FIRST_YEAR, LAST_YEAR = 1888, 2200
MOST_ID = 2**53
#: A longer number is too large in any case, and Python refuses to parse thousands of digits.
MOST_DIGITS = 20
NAMES = ("title_japanese", "title_chinese", "title_english")
NUMBERS = ("bangumi_id", "year", "tmdb_id")
FIELDS = ("bangumi_id", *NAMES, "year", "poster", "tmdb_id")


@dataclass(frozen=True, slots=True)
class NewTitle:
    """A checked title. A field that is None was not given, and changes nothing in an existing title."""

    bangumi_id: int | None = None
    title_japanese: str | None = None
    title_chinese: str | None = None
    title_english: str | None = None
    year: int | None = None
    poster: str | None = None
    tmdb_id: int | None = None

    @property
    def identity(self) -> str:
        """Return what identifies the title when it is added again."""
        if self.bangumi_id is not None:
            return f"bangumi:{self.bangumi_id}"
        name = next(name for name in (self.title_japanese, self.title_chinese, self.title_english) if name)
        return f"name:{fold(name)}:{self.year or ''}"


def merge(first: NewTitle, second: NewTitle) -> NewTitle:
    """Return one title with the fields of both; where they differ, the second wins."""
    said = {name: value for name in FIELDS if (value := getattr(second, name)) is not None}
    return replace(first, **said)


def check_title(given: Mapping[str, Any]) -> NewTitle:
    """Return the checked title. Raises InvalidTitle and others, with the field in the sentence."""
    if unknown := sorted(given.keys() - set(FIELDS)):
        raise InvalidTitle(
            f"{unknown[0][:40]!r} is not a field of a title. Its fields are {', '.join(FIELDS)}.", field=unknown[0][:40]
        )
    checked: dict[str, Any] = {name: _number(name, given.get(name)) for name in NUMBERS}
    checked |= {name: _text(name, given.get(name), NAME_LIMIT) for name in NAMES}
    year = checked["year"]
    if year is not None and not FIRST_YEAR <= year <= LAST_YEAR:
        raise InvalidTitle(f"year is {year}; it must be {FIRST_YEAR} to {LAST_YEAR}.", field="year")
    checked["poster"] = poster = _text("poster", given.get("poster"), most=4_000)
    if poster is not None:
        is_local(poster)
    if not any(checked[name] for name in ("bangumi_id", *NAMES)):
        raise InvalidTitle("The title has neither a Bangumi id nor a name.")
    return NewTitle(**checked)


def _number(name: str, value: Any) -> int | None:
    """Return a whole number, also from the text of a table's cell."""
    if isinstance(value, str):
        value = value.strip()
        if not value:
            return None
        value = int(value) if value.isascii() and value.isdecimal() and len(value) <= MOST_DIGITS else value
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MOST_ID:
        raise InvalidTitle(f"{name} is {str(value)[:40]!r}; it must be a whole number of 1 or more.", field=name)
    return value


def _text(name: str, value: Any, most: int) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidTitle(f"{name} must be text.", field=name)
    return check_plain_text(name, value.strip(), most=most) or None
