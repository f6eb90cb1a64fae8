"""Files that list titles: CSV or JSON Lines, from a disk or a pipe, never in memory as a whole."""

import contextlib
import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from longtake.capabilities.catalogue.new_titles import FIELDS
from longtake.errors import ImportFileInvalid
from longtake.import_rows import BadRow, BoundedLines, Columns, Row, read_csv, read_json_lines

PIPE = "-"
JSON_LINES = {".jsonl", ".ndjson"}
NAMES = ", ".join(FIELDS)
COLUMNS = Columns(
    FIELDS,
    frozenset(FIELDS[:4]),
    NAMES,
    hint=f"It is CSV in UTF-8 with a header of some of {NAMES}; or JSON Lines, with objects of the same names.",
)
#: So much of a pipe is looked at to see which of both it is.
PEEKED = 64


@dataclass(frozen=True)
class TitleFile:
    """An open file: its rows, and how far they are read."""

    rows: Iterator[Row | BadRow]
    source: BinaryIO
    #: None where nobody knows how much will come.
    size: int | None

    @contextlib.contextmanager
    def bar(self) -> Iterator[Callable[[int], None]]:
        """Show how much of the file has been read; yield what is to be told after each batch."""
        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
            TextColumn("{task.fields[rows]:,} titles"), TimeRemainingColumn(),
        )  # fmt: skip
        with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
            task = progress.add_task("import", total=self.size, rows=0)
            yield lambda rows: progress.update(task, completed=self._done(), rows=rows)

    def _done(self) -> int:
        return 0 if self.size is None else self.source.tell()


@contextlib.contextmanager
def open_titles(path: Path) -> Iterator[TitleFile]:
    """Open a list of titles; raises ImportFileInvalid when it cannot be read."""
    with contextlib.ExitStack() as stack:
        try:
            source = sys.stdin.buffer if str(path) == PIPE else stack.enter_context(path.open("rb"))
            known = os.fstat(source.fileno())
            in_lines = _begins_with_brace(source) if str(path) == PIPE else path.suffix.lower() in JSON_LINES
        except OSError as error:
            raise ImportFileInvalid(f"{path} cannot be read: {error.strerror}.", hint=COLUMNS.hint) from None
        text = io.TextIOWrapper(cast("Any", source), encoding="utf-8-sig", errors="surrogateescape", newline="")
        # It does not belong to the wrapper: standard input stays open.
        stack.callback(text.detach)
        lines = BoundedLines(text)
        rows = read_json_lines(lines, COLUMNS) if in_lines else read_csv(lines, COLUMNS)
        size = known.st_size if stat.S_ISREG(known.st_mode) else None
        yield TitleFile(map(_without_empty, rows), source, size)


def _without_empty(row: Row | BadRow) -> Row | BadRow:
    """Leave out what is empty: it says nothing about a title."""
    if isinstance(row, BadRow):
        return row
    return Row(row.number, {name: value for name, value in row.cells.items() if value not in {"", None}})


def _begins_with_brace(source: Any) -> bool:
    beginning: bytes = source.peek(PEEKED)[:PEEKED]
    return beginning.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
