"""Tables, facts and JSON on a terminal or in a pipe. Whatever stands in a row is shown as text, never as markup."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from longtake.cli.failures import end_quietly_on_closed_pipe

#: In a pipe nothing is cut off or wrapped: programs such as grep read whole lines.
PIPE_WIDTH = 1000
STYLES = {
    "ready": "cyan", "running": "green", "done": "dim", "failed": "red", "cancelled": "yellow", "paused": "yellow",
    "acknowledged": "yellow", "resolved": "dim", "CRITICAL": "red", "WARNING": "yellow",
}  # fmt: skip
# A job's error text must not be able to steer the terminal.
_CONTROL = {code: f"\\x{code:02x}" for code in [*range(32), *range(127, 160)]} | {10: " ", 9: " "}
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def print_json(content: Any) -> None:
    """Print for programs."""
    _write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def print_line(text: str) -> None:
    """Print a sentence for people."""
    _write(clean(text) + "\n")


def print_note(text: str) -> None:
    """Print what is not part of the result, so that it does not get into a pipe."""
    sys.stderr.write(clean(text) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, nothing: str) -> None:
    """Print rows under their headings; the first column is never cut."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, no_wrap=number == 0, overflow="fold")
    count = 0
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
        count += 1
    if count:
        _print(table)
    else:
        print_note(nothing)


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print one thing's properties, one under the other; what is empty is left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        if value not in (None, "", [], {}):
            grid.add_row(name, _cell(value))
    _print(grid)


def clean(text: str) -> str:
    """Return the text on one line, without anything that steers a terminal."""
    return text.translate(_CONTROL)


def count(row: Mapping[str, Any], name: str) -> str:
    """Return a count that may have stopped at its limit."""
    return f"{row[name]:,}{'+' if row.get(f'{name}_is_more') else ''}"


def age(moment: str | None) -> str:
    """Return how long ago a time was, or how soon it is."""
    if moment is None:
        return ""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    return f"in {duration(-seconds)}" if seconds <= -1 else f"{duration(seconds)} ago"


def duration(seconds: float) -> str:
    """Return a length of time in its largest sensible unit."""
    for unit, length in _UNITS:
        # 90 s rather than 2 min, but 1 h rather than 60 min.
        if seconds >= 2 * length or seconds == length or unit == "s":
            return f"{max(seconds, 0) / length:.0f} {unit}"
    return ""


def _print(table: Table) -> None:
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(table)
    _write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def _write(text: str) -> None:
    """Write at once; a reader who has gone ends the command without a word."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        end_quietly_on_closed_pipe()


def _cell(value: Any) -> Text:
    if value is None:
        return Text("")
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False)
    text = clean(f"{value:g}" if isinstance(value, float) else str(value))
    return Text(text, style=STYLES.get(text, ""))
