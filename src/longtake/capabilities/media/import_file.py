"""Lists of files to bring in, as CSV: good rows are taken, bad ones are told by their line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from longtake.capabilities.media.imports import TITLE_LIMIT, URL_LIMIT, Kind, Wanted
from longtake.import_rows import BadRow, Columns, read_csv

COLUMNS = Columns(("url", "title", "kind"), frozenset({"url"}), "url, and if you like title and kind")
KINDS: dict[str, Kind] = {"image": "image", "video": "video"}


@dataclass(frozen=True, slots=True)
class Line:
    """A good row, and where it stands."""

    number: int
    wanted: Wanted


@dataclass(slots=True)
class ImportFile:
    """What a file has: rows to bring in, and what is wrong with the others, by line."""

    lines: list[Line] = field(default_factory=list)
    bad: list[tuple[int, str]] = field(default_factory=list)


def read_import(text: Iterable[str]) -> ImportFile:
    """Read the lines of a file with a header. Raises ImportFileInvalid when it cannot be understood at all."""
    found = ImportFile()
    for row in read_csv(text, COLUMNS):
        wanted = row.reason if isinstance(row, BadRow) else _wanted(row.cells)
        if isinstance(wanted, str):
            found.bad.append((row.number, wanted))
        else:
            found.lines.append(Line(row.number, wanted))
    return found


def _wanted(cells: Mapping[str, str]) -> Wanted | str:
    """Return what the row asks for, or what is wrong with it."""
    url, title, kind = (cells.get(name, "") for name in COLUMNS.names)
    if not url:
        return "It has no url."
    if not url.lower().startswith(("http://", "https://")):
        return "Its url does not begin with https:// or http://."
    if len(url) > URL_LIMIT:
        return f"Its url has more than {URL_LIMIT:,} characters."
    if len(title) > TITLE_LIMIT:
        return f"Its title has more than {TITLE_LIMIT:,} characters."
    if kind and kind.lower() not in KINDS:
        return f"Its kind is {kind[:20]!r}; it may be image or video."
    return Wanted(url, KINDS.get(kind.lower()), title or None)
