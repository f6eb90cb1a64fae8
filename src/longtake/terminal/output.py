"""Tables, facts and JSON on a terminal or in a pipe. Values are shown as text, never as markup."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from longtake.terminal.failures import end_quietly_on_closed_pipe

#: In a pipe nothing is cut or wrapped, because programs such as grep read whole lines.
PIPE_WIDTH = 1000
#: A cut column keeps at least so many characters; with fewer it says nothing.
LEAST_WIDTH = 12
GAP = 2
STYLES = {
    "ready": "cyan", "running": "green", "done": "dim", "failed": "red", "cancelled": "yellow", "paused": "yellow",
    "acknowledged": "yellow", "resolved": "dim", "CRITICAL": "red", "WARNING": "yellow",
}  # fmt: skip
# A job's error text must not send control codes to the terminal.
_CONTROL = {code: f"\\x{code:02x}" for code in [*range(32), *range(127, 160)]} | {10: " ", 9: " "}
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def print_json(content: Any) -> None:
    """Print JSON for programs."""
    _write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def print_line(text: str) -> None:
    """Print a line for people."""
    _write(clean(text) + "\n")


def print_note(text: str) -> None:
    """Print a note on standard error, so that it stays out of pipes."""
    sys.stderr.write(clean(text) + "\n")


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    nothing: str,
    cut: Sequence[str] = (),
    spare: Sequence[str] = (),
) -> None:
    """Print rows under their headings, or the note `nothing` if there are none. The first column is never cut.

    With `cut` every row is one line: on a narrow terminal these columns end with "…", and those in `spare` are left
    out, in their order. Pipes and --json get everything.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    if not cells:
        print_note(nothing)
        return
    shown = _shown(columns, cells, cut, spare)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number in shown:
        one_line = number == 0 or (bool(cut) and columns[number] not in cut)
        table.add_column(columns[number], no_wrap=one_line, overflow="fold")
    for row in cells:
        for number in shown:
            if columns[number] in cut:
                row[number].no_wrap, row[number].overflow = True, "ellipsis"
        table.add_row(*(row[number] for number in shown))
    _print(table)


def print_page(
    found: Mapping[str, Any],
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    as_json: bool,
    nothing: str,
    cut: Sequence[str] = (),
    spare: Sequence[str] = (),
) -> None:
    """Print what was found: all of it as JSON for programs, or a table of it, and how to get the next page."""
    if as_json:
        print_json(found)
        return
    print_table(columns, rows, nothing=nothing, cut=cut, spare=spare)
    if found.get("next"):
        print_note(f"There are more: add --before {found['next']}")


def _shown(
    columns: Sequence[str], cells: Sequence[Sequence[Text]], cut: Sequence[str], spare: Sequence[str]
) -> list[int]:
    """Return the indexes of the columns that fit."""
    widths = [max(len(name), *(row[number].cell_len for row in cells)) for number, name in enumerate(columns)]
    least = [min(width, LEAST_WIDTH) if name in cut else width for name, width in zip(columns, widths, strict=True)]
    shown = list(range(len(columns)))
    for name in spare:
        if sum(least[number] + GAP for number in shown) - GAP <= _console().width:
            break
        shown.remove(columns.index(name))
    return shown


def on_terminal() -> bool:
    """Return whether standard output is a terminal, with its limited width."""
    return sys.stdout.isatty()


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print the properties of one thing, one per line; empty ones are left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        if value not in (None, "", [], {}):
            grid.add_row(name, _cell(value))
    _print(grid)


def clean(text: str) -> str:
    """Return the text on one line, without control codes."""
    return text.translate(_CONTROL)


def none_of(things: str, *, filtered: bool) -> str:
    """Return the note that the user has none of these, or that none passes the filters."""
    return f"None of your {things} match." if filtered else f"You have no {things}."


def counted(number: int, thing: str) -> str:
    """Return a number of things, such as `1 job` and `2 jobs`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def count(row: Mapping[str, Any], name: str) -> str:
    """Return a count, with a plus sign if counting stopped at its limit."""
    return f"{row[name]:,}{'+' if row.get(f'{name}_is_more') else ''}"


def age(moment: str | None) -> str:
    """Return how long ago a time was, or how soon it comes."""
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


def percent(part: float | None) -> str:
    """Return a part of one in percent, or a dash if it is unknown."""
    return "–" if part is None else f"{100 * part:.1f} %"


def seconds(value: float | None) -> str:
    """Return seconds with a tenth, or a dash if they are unknown."""
    return "–" if value is None else f"{value:,.1f} s"


def _console() -> Console:
    return Console(width=None if on_terminal() else PIPE_WIDTH, highlight=False, markup=False, emoji=False)


def _print(table: Table) -> None:
    console = _console()
    with console.capture() as captured:
        console.print(table)
    _write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def _write(text: str) -> None:
    """Write and flush; if the reader has gone, the command ends without a message."""
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
