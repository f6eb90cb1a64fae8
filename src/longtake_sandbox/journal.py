"""Accepted tasks as lines of JSON in a file, so that a restarted sandbox still knows what it was paid for."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from longtake_sandbox.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What is not written: it is fetched or given out anew.
FLEETING = {"references", "fetching", "link", "link_until"}


class Journal:
    """An append-only file; without a path nothing is kept."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._file = self._path.open("ab", buffering=0) if self._path else None
        if self._file and self._path and not self._path.read_bytes().endswith(b"\n"):
            # What a kill cut off must not spoil the line that comes next.
            self._file.write(b"\n")

    def write(self, task: Task) -> None:
        """Append a task as it is now; of several lines for one task the last counts."""
        if self._file:
            self._file.write(orjson.dumps(_row(task)) + b"\n")

    def read(self) -> Iterator[Task]:
        """Return the tasks in the file; a last line that a kill cut off is left out."""
        lines = self._path.read_bytes().split(b"\n") if self._path else []
        found = {}
        for line in lines:
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            found[row["id"]] = Task(**{**row, "seconds": math.inf if row["seconds"] is None else row["seconds"]})
        yield from found.values()

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()


def _row(task: Task) -> dict[str, Any]:
    row = {name: value for name, value in asdict(task).items() if name not in FLEETING}
    row["seconds"] = None if math.isinf(task.seconds) else task.seconds
    return row
