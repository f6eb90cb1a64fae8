"""Imports of titles, one or a file of any size batch by batch; progress and status of the work on the catalogue."""

from __future__ import annotations

import contextlib
import io
import json
import os
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar
from rich.table import Table

from longtake.capabilities.catalogue.new_titles import FIELDS
from longtake.cli.catalogue_titles import connect_catalogue, name_of
from longtake.cli.operator_access import error_of
from longtake.cli.server import ServerConnection
from longtake.client import Client
from longtake.client.shapes import CatalogueStatus
from longtake.errors import ImportFileInvalid, StateConflict
from longtake.import_rows import BadRow, BoundedLines, Columns, Row, read_csv, read_json_lines
from longtake.terminal.failures import REFUSED, print_error
from longtake.terminal.output import age, counted, print_facts, print_json, print_line, print_note
from longtake.terminal.progress import BAR_WIDTH, live_view

PIPE = "-"
JSON_LINES = {".jsonl", ".ndjson"}
NAMES = ", ".join(FIELDS)
COLUMNS = Columns(
    FIELDS,
    frozenset(FIELDS[:4]),
    NAMES,
    hint=f"It is CSV in UTF-8 with a header of some of {NAMES}; or JSON Lines, with objects of the same names.",
)
#: The first bytes of a pipe tell CSV from JSON Lines.
PEEKED = 64
BATCH = 500
#: A request may have a million bytes; no valid row comes near ROW_BYTES.
BATCH_BYTES = 500_000
ROW_BYTES = 100_000
OUTCOMES = ("created", "updated", "unchanged", "refused")
#: --json has so many refusals at most; standard error has all of them.
KEPT = 1_000


@dataclass(frozen=True)
class TitleFile:
    """An open file: its rows, and how much of it has been read."""

    rows: Iterator[Row | BadRow]
    source: BinaryIO
    #: None if unknown, as for a pipe.
    size: int | None

    @contextlib.contextmanager
    def bar(self) -> Iterator[Callable[[int], None]]:
        """Show how much of the file has been read; yield the function to call after each batch."""
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
    """Open a list of titles; raise ImportFileInvalid if it cannot be read."""
    with contextlib.ExitStack() as stack:
        try:
            source = sys.stdin.buffer if str(path) == PIPE else stack.enter_context(path.open("rb"))
            known = os.fstat(source.fileno())
            in_lines = _begins_with_brace(source) if str(path) == PIPE else path.suffix.lower() in JSON_LINES
        except OSError as error:
            raise ImportFileInvalid(f"{path} cannot be read: {error.strerror}.", hint=COLUMNS.hint) from None
        text = io.TextIOWrapper(cast("Any", source), encoding="utf-8-sig", errors="surrogateescape", newline="")
        # Detached at the end, so that standard input stays open.
        stack.callback(text.detach)
        lines = BoundedLines(text)
        rows = read_json_lines(lines, COLUMNS) if in_lines else read_csv(lines, COLUMNS)
        size = known.st_size if stat.S_ISREG(known.st_mode) else None
        yield TitleFile(map(_without_empty, rows), source, size)


def _without_empty(row: Row | BadRow) -> Row | BadRow:
    """Leave out empty cells: they say nothing about a title."""
    if isinstance(row, BadRow):
        return row
    return Row(row.number, {name: value for name, value in row.cells.items() if value not in {"", None}})


def _begins_with_brace(source: Any) -> bool:
    beginning: bytes = source.peek(PEEKED)[:PEEKED]
    return beginning.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")


@dataclass
class ImportCounts:
    """Outcomes of the rows: counts only, so that memory does not grow with the file."""

    by_outcome: Counter[str] = field(default_factory=Counter)
    refusals: list[dict[str, Any]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Rows processed so far."""
        return self.by_outcome.total()

    def refuse(self, line: int, message: str, code: str, hint: str = "") -> None:
        """Count a refused row and report it at once."""
        self.by_outcome["refused"] += 1
        if len(self.refusals) < KEPT:
            self.refusals.append({"line": line, "code": code, "message": message, "hint": hint})
        print_error(f"Line {line}: {message}", code, hint)

    def __str__(self) -> str:
        """Return the counts in words."""
        return ", ".join(f"{self.by_outcome[outcome]:,} {outcome}" for outcome in OUTCOMES)


def import_title(given: dict[str, Any], *, as_json: bool) -> None:
    """Add or update one title, and print the outcome."""
    with connect_catalogue() as server:
        [item] = server.client.catalogue.add_many([given])
        if item["id"] is None:
            refused = item["refused"] or {"code": "", "message": "The title was refused.", "hint": ""}
            raise error_of(refused["code"], refused["message"], refused["hint"])
        finish_locally(server)
        title = server.client.catalogue.get(item["id"])
    if as_json:
        print_json({"result": item["result"], "title": title})
        return
    print_line(item["id"])
    words = {"created": "was added", "updated": "already existed and was changed"}
    print_line(f"{name_of(title)} {words.get(item['result'], 'already exists unchanged')}.")


def import_titles(path: Path, *, as_json: bool) -> None:
    """Add or update all titles of a file; exit with 1 if a row was refused."""
    counts = ImportCounts()
    with open_titles(path) as file:
        # A wrong file is refused before the server is contacted.
        first = list(islice(file.rows, 1))
        with connect_catalogue() as server:
            try:
                with file.bar() as show:
                    for batch in _batches(chain(first, file.rows)):
                        _import_batch(server.client, batch, counts)
                        show(counts.rows)
            except BaseException:
                print_note(f"So far: {counts}. Run the command again to continue: existing titles stay unchanged.")
                raise
            if counts.by_outcome["created"] or counts.by_outcome["updated"]:
                finish_locally(server)
    if as_json:
        numbers = {outcome: counts.by_outcome[outcome] for outcome in OUTCOMES}
        print_json(numbers | {"refusals": counts.refusals})
    else:
        print_line(f"{counts}.")
    if counts.by_outcome["refused"]:
        raise typer.Exit(REFUSED)


def _batches(rows: Iterator[Row | BadRow]) -> Iterator[list[Row | BadRow]]:
    """Group rows into requests; bad rows keep their place, so that they are reported in order."""
    batch: list[Row | BadRow] = []
    size = 0
    for row in rows:
        length = len(json.dumps(row.cells)) if isinstance(row, Row) else 0
        if batch and (len(batch) == BATCH or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        if length > ROW_BYTES:
            batch.append(BadRow(row.number, f"It has more than {ROW_BYTES:,} bytes."))
        else:
            batch.append(row)
            size += length
    if batch:
        yield batch


def _import_batch(client: Client, batch: Sequence[Row | BadRow], counts: ImportCounts) -> None:
    good = [row.cells for row in batch if isinstance(row, Row)]
    items = iter(client.catalogue.add_many(good) if good else ())
    for row in batch:
        if isinstance(row, BadRow):
            counts.refuse(row.number, row.reason, ImportFileInvalid.code)
            continue
        item = next(items)
        if refused := item["refused"]:
            counts.refuse(row.number, refused["message"], refused["code"], refused["hint"])
        else:
            counts.by_outcome[item["result"]] += 1


KEY_HINT = "`longtake secrets set tmdb_api_key` or LONGTAKE_TMDB_API_KEY"
IDLE_HINT = "`longtake catalogue start` resumes it after a stop; `longtake serve` or `longtake worker` does the work."
LOOK_SECONDS = 0.5
FRAMES_PER_SECOND = 4
#: Least time between two plain lines.
LINE_SECONDS = 5.0
#: How long the work may look idle; a worker that has just started is not visible at once.
IDLE_SECONDS = 10.0
#: If nothing changes for so long, the rest waits for its next try, which may be minutes away.
STILL_SECONDS = 10.0
#: Jobs that lead to a sync.
BEFORE_SYNC = {"catalogue.calendar", "catalogue.subject"}


def watch(server: ServerConnection, *, patient: bool = True) -> CatalogueStatus:
    """Show the progress until no work is left, then return the catalogue's state.

    Without ``patient``, work that waits for another try is not waited for.
    """
    status = server.client.catalogue.status()
    try:
        if not sys.stderr.isatty():
            return _until_done(server.client, status, _line_printer(), patient=patient)
        with live_view(_bars, status, frames_per_second=FRAMES_PER_SECOND) as show:
            return _until_done(server.client, status, show, patient=patient)
    except KeyboardInterrupt:
        later = "The rest continues as soon as a server runs: `longtake serve`."
        now = "The work itself goes on: `longtake catalogue status` shows its progress."
        print_note(f"Only the waiting has ended. {later if server.embedded else now}")
        raise


def finish_locally(server: ServerConnection) -> CatalogueStatus | None:
    """Wait for the work if the server ends with this command, because no other server would do it."""
    if not server.embedded:
        return None
    try:
        status = watch(server, patient=False)
    except StateConflict as error:
        # The request itself is done; only the rest waits.
        print_note(f"{error.message} {error.hint}")
        return None
    if is_busy(status):
        print_note("The rest waits for another try, and continues as soon as a server runs: `longtake serve`.")
    return status


def is_busy(status: CatalogueStatus) -> bool:
    """Return whether a sync is running, or a job that leads to one."""
    return status["syncing"] or bool(status["jobs"].keys() & BEFORE_SYNC)


def _until_done(
    client: Client, status: CatalogueStatus, tell: Callable[[CatalogueStatus], None], *, patient: bool
) -> CatalogueStatus:
    """Look at the catalogue until there is nothing left to wait for; pass each state to `tell` and return the last."""
    worked_at = moved_at = time.monotonic()
    tell(status)
    while is_busy(status) and (patient or time.monotonic() - moved_at <= STILL_SECONDS):
        time.sleep(LOOK_SECONDS)
        before, status = status, client.catalogue.status()
        now = time.monotonic()
        if status["running"]:
            worked_at = now
        elif now - worked_at > IDLE_SECONDS:
            raise StateConflict("No worker is alive for the catalogue: there is nothing to wait for.", hint=IDLE_HINT)
        if before != status or any(states.get("running") for states in status["jobs"].values()):
            moved_at = now
        tell(status)
    return status


def _line_printer() -> Callable[[CatalogueStatus], None]:
    """Return a function that prints a state if it says something new, now and then."""
    printed, printed_at = "", 0.0

    def tell(status: CatalogueStatus) -> None:
        nonlocal printed, printed_at
        line, now = describe(status), time.monotonic()
        if line != printed and (now - printed_at >= LINE_SECONDS or not is_busy(status)):
            printed, printed_at = line, now
            print_note(line)

    return tell


def _bars(status: CatalogueStatus) -> Table:
    table = Table.grid(padding=(0, 1))
    total, stored, found = status["titles"], status["posters"]["stored"], status["tmdb"]["found"]
    trouble = f", {status['in_trouble']:,} in trouble" if status["in_trouble"] else ""
    doubt = f", {status['tmdb']['in_doubt']:,} in doubt" if status["tmdb"]["in_doubt"] else ""
    key = "" if status["tmdb_configured"] else ", no TMDB key"
    table.add_row("posters", ProgressBar(total or 1, stored, width=BAR_WIDTH), f"{stored:,} of {total:,}{trouble}")
    table.add_row("ids", ProgressBar(total or 1, found, width=BAR_WIDTH), f"{found:,} of {total:,}{doubt}{key}")
    table.add_row("jobs left", "", f"{jobs_left(status):,}")
    return table


def print_status(status: CatalogueStatus) -> None:
    """Print the state of the catalogue."""
    schedules: Mapping[str, Any] = status["schedules"]
    print_facts(
        {
            "titles": f"{status['titles']:,}",
            "posters": f"{_part(status['posters']['stored'], status)} stored, {status['posters']['remote']:,} remote,"
            f" {status['posters']['none']:,} without",
            "tmdb ids": f"{_part(status['tmdb']['found'], status)} found, {status['tmdb']['in_doubt']:,} in doubt,"
            f" {status['tmdb']['not_found']:,} not found, {status['tmdb']['waiting']:,} waiting",
            "in trouble": f"{status['in_trouble']:,}"
            + (": `longtake catalogue list --in-trouble`" if status["in_trouble"] else ""),
            "worker": "running" if status["running"] else f"none: {IDLE_HINT}",
            "syncing": f"yes, {counted(jobs_left(status), 'job')} left" if status["syncing"] else "no",
            "next sync": _next_run(schedules.get("sync")),
            "next calendar": _next_run(schedules.get("calendar")),
            "tmdb key": "configured" if status["tmdb_configured"] else f"none, so no ids are looked up: {KEY_HINT}",
        }
    )


def jobs_left(status: CatalogueStatus) -> int:
    """Return the number of jobs that wait or run."""
    return sum(sum(states.values()) for states in status["jobs"].values())


def describe(status: CatalogueStatus) -> str:
    """Return the progress of a sync in words."""
    tmdb, posters = status["tmdb"], _part(status["posters"]["stored"], status)
    return (
        f"{posters} posters, {counted(tmdb['found'], 'id')}, {tmdb['in_doubt']:,} in doubt,"
        f" {status['in_trouble']:,} in trouble, {counted(jobs_left(status), 'job')} left"
    )


def _part(number: int, status: CatalogueStatus) -> str:
    return f"{number:,} of {status['titles']:,}"


def _next_run(rhythm: Mapping[str, Any] | None) -> str:
    if rhythm is None or rhythm["next_at"] is None:
        return "not by itself"
    last = f" (last {age(rhythm['last_at'])})" if rhythm["last_at"] else ""
    return f"{age(rhythm['next_at'])}{last}"
