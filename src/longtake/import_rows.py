"""Rows of import files, CSV or JSON Lines, read one at a time, so that memory does not grow with the file.

An invalid row is reported with its line number and does not stop the others. Only a file without a valid header is
refused as a whole.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TextIO

from longtake.errors import ImportFileInvalid

#: Far longer than any valid row. Longer lines are not kept in memory.
LONGEST_LINE = 100_000
SHOWN = 200
#: The characters that `errors="surrogateescape"` makes of bytes that are not UTF-8.
_NO_TEXT = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that rows may have. A header needs one of `one_of`; `expected` lists the columns in errors."""

    names: tuple[str, ...]
    one_of: frozenset[str]
    expected: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A row: the number of its last line, and its cells."""

    number: int
    cells: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BadRow:
    """An invalid row: the number of its last line, and the reason."""

    number: int
    reason: str


class LineInvalid(ValueError):
    """A line is invalid. The lines after it can be read."""


class BoundedLines:
    """Iterates over the lines of an open file; raises LineInvalid for one that is too long or not UTF-8, then goes on.

    Open the file with `errors="surrogateescape"` and `newline=""`.
    """

    def __init__(self, text: TextIO) -> None:
        self._text = text

    def __iter__(self) -> BoundedLines:
        return self

    def __next__(self) -> str:
        line = self._text.readline(LONGEST_LINE)
        if not line:
            raise StopIteration
        if len(line) == LONGEST_LINE and not line.endswith(("\n", "\r")):
            while (rest := self._text.readline(LONGEST_LINE)) and not rest.endswith(("\n", "\r")):
                pass
            raise LineInvalid(f"It has more than {LONGEST_LINE:,} characters.")
        if _NO_TEXT.search(line):
            raise LineInvalid("It is not text in UTF-8.")
        return line


class _Numbered:
    """Counts lines, including invalid ones, which csv's own count leaves out."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self.number = 0

    def __iter__(self) -> _Numbered:
        return self

    def __next__(self) -> str:
        try:
            line = next(self._lines)
        except LineInvalid:
            self.number += 1
            raise
        self.number += 1
        return line


def read_csv(lines: Iterable[str], columns: Columns) -> Iterator[Row | BadRow]:
    """Yield the rows below a header. Raises ImportFileInvalid if the header is missing or invalid."""
    numbered = _Numbered(lines)
    reader = csv.reader(numbered, strict=True)
    header = _header(reader, columns)
    while True:
        before = numbered.number
        try:
            row = next(reader)
        except StopIteration:
            return
        except (csv.Error, LineInvalid) as error:
            # An open quote swallows lines, so the error also names the line where the row starts.
            begun = f" The row starts in line {before + 1}." if numbered.number > before + 1 else ""
            reason = f"It is not CSV: {error}." if isinstance(error, csv.Error) else str(error)
            yield BadRow(numbered.number, reason + begun)
            continue
        if len(row) > len(header):
            yield BadRow(numbered.number, f"It has {len(row)} cells; the header has {len(header)}.")
        elif any(cell.strip() for cell in row):
            cells = {name: cell.strip() for name, cell in zip(header, row, strict=False)}
            yield Row(numbered.number, cells)


def read_json_lines(lines: Iterable[str], columns: Columns) -> Iterator[Row | BadRow]:
    """Yield the objects, one per line."""
    numbered = _Numbered(lines)
    while True:
        try:
            line = next(numbered)
            if line.strip("\ufeff \t\r\n"):
                yield Row(numbered.number, _cells(line, columns))
        except StopIteration:
            return
        except LineInvalid as error:
            yield BadRow(numbered.number, str(error))


def _header(reader: Iterable[list[str]], columns: Columns) -> list[str]:
    try:
        header = [cell.strip().lower().removeprefix("\ufeff") for cell in next(iter(reader), [])]
    except (csv.Error, LineInvalid) as error:
        raise ImportFileInvalid(f"The first line is not CSV: {str(error).rstrip('.')}.", hint=columns.hint) from None
    unknown = sorted({name for name in header if name not in columns.names})
    twice = sorted(name for name, count in Counter(header).items() if count > 1)
    if header and not unknown and not twice and columns.one_of & set(header):
        return header
    found = f"has the columns {', '.join(header)[:SHOWN]!r}" if header else "is empty"
    if unknown or twice:
        found += f", of which {_named(unknown or twice)} {'is not known' if unknown else 'appears twice'}"
    raise ImportFileInvalid(f"The first line {found}. Expected: {columns.expected}.", hint=columns.hint)


def _cells(line: str, columns: Columns) -> dict[str, Any]:
    try:
        found = json.loads(line.removeprefix("\ufeff"), object_pairs_hook=_object, parse_constant=_refuse)
    except LineInvalid:
        raise
    except (ValueError, RecursionError) as error:
        raise LineInvalid(f"It is not JSON: {str(error)[:SHOWN].rstrip('.')}.") from None
    if not isinstance(found, dict):
        raise LineInvalid("It is not a JSON object.")
    if unknown := sorted(found.keys() - set(columns.names)):
        raise LineInvalid(f"It has {_named(unknown)}, which is not known. Expected: {columns.expected}.")
    for name, value in found.items():
        if not (value is None or isinstance(value, str | int)):
            raise LineInvalid(f"Its {name} is neither text nor a whole number.")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise LineInvalid("It has a duplicate name.")
    return found


def _refuse(word: str) -> NoReturn:
    raise LineInvalid(f"It has {word}, which is not a JSON number.")


def _named(names: Sequence[str]) -> str:
    return ", ".join(name[:SHOWN] for name in names[:3]) or "a column without a name"
