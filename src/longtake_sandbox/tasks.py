"""The tasks that the sandbox has accepted. A task's state is arithmetic on its age; nothing runs in the background."""

from __future__ import annotations

import math
import uuid
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import orjson

from longtake_sandbox.prompt_directives import Wishes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtake_sandbox.options import Options

#: Until which part of its duration a task is in which state.
STATES = ((0.1, "waiting"), (0.3, "queuing"), (1.0, "generating"))


@dataclass(slots=True)
class Task:
    """What was accepted, and is paid for by whoever asked. ``family`` is the API it belongs to."""

    id: str
    provider: str
    family: str
    model: str
    kind: str
    prompt: str
    param: dict[str, Any]
    callback_url: str
    created: float
    seconds: float
    ending: str
    failure: str = ""
    #: Small pictures of the references, once they are fetched.
    references: tuple[bytes, ...] = ()
    fetching: bool = False
    #: The address of the result that was last given out, and until when it works.
    link: str = ""
    link_until: float = 0.0
    told_end: bool = False
    #: The callback was sent, heard or not, and is not planned again.
    called_back: bool = False

    def state(self, now: float) -> str:
        """Return waiting, queuing, generating, success or fail."""
        part = 0.0 if math.isinf(self.seconds) else (now - self.created) / self.seconds if self.seconds else 1.0
        for until, word in STATES:
            if part < until:
                return word
        if self.fetching:
            return "generating"
        return "success" if self.ending in {"success", "empty"} else "fail"

    def ended(self, now: float) -> bool:
        """Say whether the task has come to its end."""
        return self.state(now) in {"success", "fail"}

    @property
    def ends_at(self) -> float:
        return self.created + self.seconds

    def as_dict(self, now: float) -> dict[str, Any]:
        return {
            "id": self.id, "provider": self.provider, "family": self.family, "model": self.model, "kind": self.kind,
            "prompt": self.prompt, "callback_url": self.callback_url, "reference": reference_of(self.callback_url),
            "created": self.created, "seconds": None if math.isinf(self.seconds) else self.seconds,
            "ending": self.ending, "state": self.state(now), "param": self.param,
        }  # fmt: skip


@dataclass(slots=True)
class Tasks:
    """All accepted tasks by id, in the order of their acceptance."""

    options: Options
    _tasks: dict[str, Task] = field(default_factory=dict)

    def new(
        self,
        provider: str,
        family: str,
        model: str,
        kind: str,
        prompt: str,
        *,
        now: float,
        prefix: str = "",
        param: dict[str, Any] | None = None,
        callback_url: str = "",
    ) -> Task:
        """Accept a task; from here on it is paid for."""
        identity = prefix + uuid.uuid4().hex
        wishes = Wishes.of(prompt, self._spread(identity, self.options.duration(model, kind)))
        task = Task(
            identity,
            provider,
            family,
            model,
            kind,
            prompt,
            param or {},
            callback_url,
            now,
            wishes.seconds,
            wishes.ending,
        )
        self._tasks[identity] = task
        return task

    def add(self, task: Task) -> None:
        """Take a task back that an earlier process had accepted."""
        self._tasks[task.id] = task

    def get(self, identity: str, family: str = "") -> Task | None:
        """Return a task of a family, or None: one API does not know another's ids."""
        task = self._tasks.get(identity)
        return task if task and family in {"", task.family} else None

    def newest(self, family: str) -> Task | None:
        """Return the task of a family that was accepted last."""
        return next((task for task in reversed(self._tasks.values()) if task.family == family), None)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks.values())

    def _spread(self, identity: str, seconds: float) -> float:
        part = zlib.crc32(identity.encode()) / 2**32
        return seconds * (1 + self.options.spread * (2 * part - 1))


def reference_of(callback_url: str) -> str:
    """Return the caller's own reference in a callback's address: `reference` of its query, else its last part."""
    address, _, query = callback_url.partition("?")
    named = parse_qs(query).get("reference")
    return named[0] if named else address.rstrip("/").rpartition("/")[2]


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
