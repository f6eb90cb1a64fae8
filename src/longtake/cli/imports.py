"""Bringing in many files by command: page by page, waiting where there is no room, telling what was refused."""

import contextlib
import io
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from longtake.capabilities.media.imports import ImportFile, ImportLine, read_import
from longtake.cli.assets_progress import tried, what_is_missing
from longtake.cli.failures import print_error
from longtake.cli.output import print_json, print_line, print_note
from longtake.cli.user_server import Reached
from longtake.client import Client
from longtake.errors import ImportFileInvalid, TooManyImports

PAGE = 100
#: How long to wait before looking again whether there is room.
PAUSE_SECONDS = 2.0


@dataclass
class Outcome:
    """What became of the lines."""

    added: list[dict[str, Any]] = field(default_factory=list)
    there: list[dict[str, Any]] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    #: What was waited for, and has not come.
    missing: list[str] = field(default_factory=list)

    def refuse(self, line: int, message: str, code: str, hint: str = "") -> None:
        """Note a line that does not go in."""
        self.refused.append({"line": line, "code": code, "message": message, "hint": hint})

    def wait(self, reached: Reached, *, wanted: bool) -> None:
        """Wait for all of them; where the server ends with this command, nobody else would work on them."""
        if not (wanted or reached.embedded):
            return
        known = [*self.added, *self.there]
        with _bar("copied", len(known), least=1) as advance:
            for one in known:
                one.update(tried(reached.client, one))
                advance(1)
        self.missing = [line for one in known for line in what_is_missing(one)]

    def tell(self, *, as_json: bool, unit: str) -> None:
        """Print it: what went in on the one side, what did not on the other."""
        refused = sorted(self.refused, key=lambda one: int(one["line"]))
        if as_json:
            print_json({"added": self.added, "there_already": self.there, "refused": refused})
        else:
            print_line(f"{len(self.added):,} added, {len(self.there):,} there already, {len(refused):,} refused.")
        for one in refused:
            print_error(f"{unit} {one['line']}: {one['message']}", one["code"], one["hint"])
        for line in self.missing:
            print_note(line)


def read_file(path: Path) -> ImportFile:
    """Read a list of files; a byte order mark at its beginning is no harm."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise ImportFileInvalid(f"{path} cannot be read: {reason}.") from None
    return read_import(io.StringIO(text, newline=""))


def bring(client: Client, lines: Sequence[ImportLine], outcome: Outcome) -> None:
    """Bring in all lines. Where as many are under way as the server allows, wait until some are there."""
    waiting = list(lines)
    told = False
    with _bar("files", len(lines), least=PAGE + 1) as advance:
        while waiting:
            page, waiting = waiting[:PAGE], waiting[PAGE:]
            items = client.assets.add_many([asdict(line.request) for line in page])
            full = [line for line, item in zip(page, items, strict=True) if _is_full(item)]
            for line, item in zip(page, items, strict=True):
                _take(outcome, line, item)
            advance(len(page) - len(full))
            waiting = full + waiting
            if full:
                if not told:
                    print_note("No more may be under way at once: waiting. Begun anew, it goes on from here.")
                told = True
                time.sleep(PAUSE_SECONDS)


def _is_full(item: Mapping[str, Any]) -> bool:
    return bool(item["refused"]) and item["refused"]["code"] == TooManyImports.code


def _take(outcome: Outcome, line: ImportLine, item: Mapping[str, Any]) -> None:
    if item["asset"] is not None:
        (outcome.added if item["added"] else outcome.there).append(item["asset"])
    elif not _is_full(item):
        outcome.refuse(line.number, item["refused"]["message"], item["refused"]["code"], item["refused"]["hint"])


@contextlib.contextmanager
def _bar(name: str, total: int, least: int) -> Iterator[Any]:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal or total < least) as progress:
        task = progress.add_task(name, total=total)
        yield lambda count: progress.advance(task, count)
