"""Bringing titles into the catalogue by command: one, or a file of any size, batch by batch."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import typer

from longtake.cli.catalogue_access import reach_catalogue
from longtake.cli.catalogue_file import TitleFile, open_titles
from longtake.cli.catalogue_progress import see_through
from longtake.cli.catalogue_views import name_of
from longtake.cli.failures import REFUSED, print_error
from longtake.cli.operator_http import error_of
from longtake.cli.output import print_json, print_line, print_note
from longtake.client import Client
from longtake.errors import ImportFileInvalid
from longtake.import_rows import BadRow, Row

BATCH = 500
#: A request has room for a million bytes; no good row comes near the second number.
BATCH_BYTES = 500_000
ROW_BYTES = 100_000
#: So many refusals stand in --json; all of them are told where errors are.
KEPT = 1_000


@dataclass
class Outcome:
    """What became of the rows: numbers, so that a file of any size takes no more memory."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    refused: int = 0
    refusals: list[dict[str, Any]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many have been dealt with."""
        return self.created + self.updated + self.unchanged + self.refused

    def refuse(self, line: int, message: str, code: str, hint: str = "") -> None:
        """Tell at once that a row does not go in."""
        self.refused += 1
        if len(self.refusals) < KEPT:
            self.refusals.append({"line": line, "code": code, "message": message, "hint": hint})
        print_error(f"Line {line}: {message}", code, hint)

    def __str__(self) -> str:
        """Return the numbers in words."""
        known = ("created", "updated", "unchanged", "refused")
        return ", ".join(f"{getattr(self, name):,} {name}" for name in known)


def bring_one(given: dict[str, Any], *, as_json: bool) -> None:
    """Add one title, and say what became of it."""
    with reach_catalogue() as reached:
        [item] = reached.client.catalogue.add_many([given])
        if item["id"] is None:
            refused = item["refused"] or {"code": "", "message": "The title was refused.", "hint": ""}
            raise error_of({"code": refused["code"], "detail": refused["message"], "hint": refused["hint"]})
        see_through(reached)
        title = reached.client.catalogue.get(item["id"])
    if as_json:
        print_json({"result": item["result"], "title": title})
        return
    print_line(item["id"])
    words = {"created": "was added", "updated": "was there already, and has been changed"}
    print_line(f"{name_of(title)} {words.get(item['result'], 'was there already, just as it is')}.")


def bring_file(path: Path, *, as_json: bool) -> None:
    """Add all titles of a file; ends with 1 when a row was refused."""
    outcome = Outcome()
    with open_titles(path) as file:
        # A file that is none is refused before any server is asked.
        first = list(_first(file))
        with reach_catalogue() as reached:
            try:
                with file.bar() as show:
                    for batch in _batches(chain(first, file.rows)):
                        _bring(reached.client, batch, outcome)
                        show(outcome.rows)
            except BaseException:
                print_note(f"So far: {outcome}. Begun anew, it goes on: what is there stays unchanged.")
                raise
            if outcome.created or outcome.updated:
                see_through(reached)
    if as_json:
        numbers = {name: getattr(outcome, name) for name in ("created", "updated", "unchanged", "refused")}
        print_json(numbers | {"refusals": outcome.refusals})
    else:
        print_line(f"{outcome}.")
    if outcome.refused:
        raise typer.Exit(REFUSED)


def _first(file: TitleFile) -> Iterator[Row | BadRow]:
    with contextlib.suppress(StopIteration):
        yield next(file.rows)


def _batches(rows: Iterator[Row | BadRow]) -> Iterator[list[Row | BadRow]]:
    """Put together what goes into one request; bad rows stay in their place, so that they are told in order."""
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


def _bring(client: Client, batch: Sequence[Row | BadRow], outcome: Outcome) -> None:
    good = [row.cells for row in batch if isinstance(row, Row)]
    items = iter(client.catalogue.add_many(good) if good else ())
    for row in batch:
        if isinstance(row, BadRow):
            outcome.refuse(row.number, row.reason, ImportFileInvalid.code)
            continue
        item = next(items)
        if refused := item["refused"]:
            outcome.refuse(row.number, refused["message"], refused["code"], refused["hint"])
        else:
            setattr(outcome, item["result"], getattr(outcome, item["result"]) + 1)
