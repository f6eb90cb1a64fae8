"""The tasks that the sandbox has accepted, and the journal that keeps them across restarts.

A task's state follows from its age alone; nothing runs in the background. Words in its prompt choose how it ends, so
that one test or demo can show every ending.
"""

from __future__ import annotations

import math
import re
import uuid
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtake_sandbox.sandbox import Options

#: The states of a running task, each with the share of its duration at which it ends.
STATES = ((0.1, "waiting"), (0.3, "queuing"), (1.0, "generating"))
ENDED = {"success", "fail"}
#: Fields that the journal leaves out: references are fetched again, links are given out again.
FLEETING = {"references", "fetching", "link", "link_until"}


@dataclass(slots=True)
class Task:
    """An accepted task, which the caller would pay for. ``family`` is the API it belongs to."""

    id: str
    provider: str
    family: str
    model: str
    kind: str
    prompt: str
    created: float
    seconds: float
    ending: str
    param: dict[str, Any] = field(default_factory=dict)
    callback_url: str = ""
    failure: str = ""
    #: The references, reduced to small pictures.
    references: tuple[bytes, ...] = ()
    fetching: bool = False
    #: The latest URL of the result, and when it expires.
    link: str = ""
    link_until: float = 0.0
    #: A query or an answer has reported the end.
    told_end: bool = False
    #: The callback was sent, whether it arrived or not, and is not planned again.
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
        return self.state(now) in ENDED

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
    """All accepted tasks by id, oldest first."""

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
        **fields: Any,
    ) -> Task:
        """Accept a task. It costs money from here on."""
        identity = prefix + uuid.uuid4().hex
        share = zlib.crc32(identity.encode()) / 2**32
        usual = self.options.duration(model, kind) * (1 + self.options.spread * (2 * share - 1))
        ending, seconds = read_directives(prompt, usual)
        task = Task(identity, provider, family, model, kind, prompt, now, seconds, ending, **fields)
        self.add(task)
        return task

    def add(self, task: Task) -> None:
        self._tasks[task.id] = task

    def get(self, identity: str, family: str = "") -> Task | None:
        """Return the task, or None: an API does not know the ids of another family."""
        task = self._tasks.get(identity)
        return task if task and family in {"", task.family} else None

    def newest(self, family: str) -> Task | None:
        return next((task for task in reversed(self._tasks.values()) if task.family == family), None)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks.values())


def reference_of(callback_url: str) -> str:
    """Return the caller's reference from a callback URL: its `reference` parameter, or else its last path segment."""
    address, _, query = callback_url.partition("?")
    named = parse_qs(query).get("reference")
    return named[0] if named else address.rstrip("/").rpartition("/")[2]


class Journal:
    """An append-only file of accepted tasks, one JSON object a line. Without a path it keeps nothing."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._file = self._path.open("ab", buffering=0) if self._path else None
        if self._file and self._path and not self._path.read_bytes().endswith(b"\n"):
            # A kill may have cut the last line off; the next one must not be appended to it.
            self._file.write(b"\n")

    def write(self, task: Task) -> None:
        """Append the task's present state. Of several lines for one task the last counts."""
        if self._file:
            # An infinite duration becomes null.
            row = {name: value for name, value in asdict(task).items() if name not in FLEETING}
            self._file.write(orjson.dumps(row) + b"\n")

    def read(self) -> Iterator[Task]:
        """Yield the tasks in the file, without lines that a kill cut off."""
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
        if self._file:
            self._file.close()


SLOW_FACTOR = 10.0
_SECONDS = re.compile(r"\[seconds=(\d+(?:\.\d+)?)\]")


def read_directives(prompt: str, seconds: float) -> tuple[str, float]:
    """Return the ending (success, fail, blocked, safety, empty) and the duration that a prompt asks for.

    It may contain ``[fail]``, ``[blocked]``, ``[safety]``, ``[empty]``, ``[slow]``, ``[never]`` and ``[seconds=N]``.
    """
    ending = next((word for word in ("fail", "blocked", "safety", "empty") if f"[{word}]" in prompt), "success")
    if named := _SECONDS.search(prompt):
        seconds = float(named[1])
    if "[slow]" in prompt:
        seconds *= SLOW_FACTOR
    return ending, math.inf if "[never]" in prompt else seconds
