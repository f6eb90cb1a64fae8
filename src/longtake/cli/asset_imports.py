"""Imports of media files: page by page, waiting while the server is full. Loads what the server itself imports with."""

import io
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import typer

from longtake.capabilities.media.errors import TooManyImports
from longtake.capabilities.media.imports import KINDS, ImportLine, ImportRequest, read_import
from longtake.cli.server import connect
from longtake.client import Client
from longtake.errors import ImportFileInvalid
from longtake.terminal.failures import REFUSED, print_error
from longtake.terminal.output import print_json, print_line, print_note
from longtake.terminal.progress import counting_bar

PAGE = 100
#: Pause before the next attempt while the server is full.
PAUSE_SECONDS = 2.0
LOOK_SECONDS = 0.3
UNFINISHED = {"pending", "processing"}


def import_addresses(urls: Sequence[str], kind: str | None, title: str | None, *, wait: bool, as_json: bool) -> None:
    """Import files by their addresses, and print their ids; exit with 1 if one was refused or could not be copied."""
    if kind is not None and kind not in KINDS:
        raise typer.BadParameter("is image or video.", param_hint="--kind")
    lines = [ImportLine(number, ImportRequest(url, KINDS.get(kind or ""), title)) for number, url in enumerate(urls, 1)]
    _import(lines, ImportReport("Address", shows_ids=True), wait=wait, as_json=as_json)


def import_file(path: Path, *, wait: bool, as_json: bool) -> None:
    """Import the files that a CSV lists; a byte order mark is allowed."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise ImportFileInvalid(f"{path} cannot be read: {reason}.") from None
    found = read_import(io.StringIO(text, newline=""))
    report = ImportReport("Line")
    for line, reason in found.bad:
        report.refuse(line, reason, ImportFileInvalid.code)
    _import(found.lines, report, wait=wait, as_json=as_json)


@dataclass
class ImportReport:
    """The outcome of each line of an import."""

    #: What a line is called.
    unit: str
    shows_ids: bool = False
    added: list[dict[str, Any]] = field(default_factory=list)
    there: list[dict[str, Any]] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    #: The address of each file, by the id of its asset.
    addresses: dict[str, str] = field(default_factory=dict)
    #: Copies and thumbnails that were waited for and failed.
    missing: list[str] = field(default_factory=list)

    def refuse(self, line: int, message: str, code: str, hint: str = "") -> None:
        """Record a refused line."""
        self.refused.append({"line": line, "code": code, "message": message, "hint": hint})

    def wait(self, client: Client) -> None:
        """Wait until all files were tried once."""
        assets = [*self.added, *self.there]
        try:
            with counting_bar("copied", len(assets), least=1) as advance:
                for one in assets:
                    one.update(_after_first_try(client, one))
                    advance(1)
        except KeyboardInterrupt:
            print_note("Only the waiting has ended. `longtake assets list --role import` shows the files.")
            raise
        self.missing = [line for one in assets for line in _missing_parts(one, self.addresses.get(one["id"], ""))]

    def print(self, *, as_json: bool) -> None:
        """Print what was added on standard output, and what was not on standard error."""
        refused = sorted(self.refused, key=lambda one: int(one["line"]))
        if as_json:
            print_json({"added": self.added, "there_already": self.there, "refused": refused})
        else:
            for one in (*self.added, *self.there) if self.shows_ids else ():
                print_line(one["id"])
            print_line(f"{len(self.added):,} added, {len(self.there):,} there already, {len(refused):,} refused.")
        for one in refused:
            print_error(f"{self.unit} {one['line']}: {one['message']}", one["code"], one["hint"])
        for line in self.missing:
            print_note(line)


def _import(lines: Sequence[ImportLine], report: ImportReport, *, wait: bool, as_json: bool) -> None:
    with connect() as server:
        _add(server.client, lines, report)
        # A server that ends with this command copies nothing later.
        if wait or server.embedded:
            report.wait(server.client)
    report.print(as_json=as_json)
    if report.refused or report.missing:
        raise typer.Exit(REFUSED)


def _add(client: Client, lines: Sequence[ImportLine], report: ImportReport) -> None:
    """Import all lines; while the server has as many unfinished imports as it allows, wait."""
    waiting = list(lines)
    noted = False
    with counting_bar("files", len(lines), least=PAGE + 1) as advance:
        while waiting:
            page, waiting = waiting[:PAGE], waiting[PAGE:]
            items = client.assets.add_many([asdict(line.request) for line in page])
            full = [line for line, item in zip(page, items, strict=True) if _is_full(item)]
            for line, item in zip(page, items, strict=True):
                _take(report, line, item)
            advance(len(page) - len(full))
            waiting = full + waiting
            if full:
                if not noted:
                    print_note("The server allows no more unfinished imports: waiting. A second run continues.")
                noted = True
                time.sleep(PAUSE_SECONDS)


def _is_full(item: Mapping[str, Any]) -> bool:
    return bool(item["refused"]) and item["refused"]["code"] == TooManyImports.code


def _take(report: ImportReport, line: ImportLine, item: Mapping[str, Any]) -> None:
    if item["asset"] is not None:
        (report.added if item["added"] else report.there).append(item["asset"])
        report.addresses[item["asset"]["id"]] = line.request.url
    elif not _is_full(item):
        report.refuse(line.number, item["refused"]["message"], item["refused"]["code"], item["refused"]["hint"])


def _after_first_try(client: Client, asset: Mapping[str, Any]) -> dict[str, Any]:
    """Return the asset after the first try of copy and thumbnail. Later tries take minutes and are not waited for."""
    found = dict(asset)
    while _is_untried(found, "save") or _is_untried(found, "thumbnail"):
        time.sleep(LOOK_SECONDS)
        found = dict(client.assets.get(found["id"]))
    return found


def _missing_parts(asset: Mapping[str, Any], address: str = "") -> Iterator[str]:
    """Yield a sentence for each of copy and thumbnail that was tried and failed, with the address of the file."""
    for name, word in (("save", "copy"), ("thumbnail", "thumbnail")):
        if code := asset[f"{name}_error"]:
            later = "It will be retried." if asset[f"{name}_state"] in UNFINISHED else "It was given up."
            answer = asset.get(f"{name}_message")
            reason = f": {answer}" if answer else "."
            yield f"{address or asset['id']}: no {word}{reason} [{code}] {later}"


def _is_untried(asset: Mapping[str, Any], name: str) -> bool:
    return asset[f"{name}_state"] in UNFINISHED and not asset[f"{name}_error"]
