"""What all parts of a sandbox share: its choices, tasks, files, calls and faults, and the time."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from longtake_sandbox.callbacks import Callbacks
from longtake_sandbox.calls import CallLog
from longtake_sandbox.faults import Faults
from longtake_sandbox.files import Files
from longtake_sandbox.options import Options, Windows
from longtake_sandbox.posters import Covers
from longtake_sandbox.references import References
from longtake_sandbox.studio import Studio
from longtake_sandbox.tasks import Journal, Task, Tasks
from longtake_sandbox.titles import Catalogue, make_catalogue

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtake_sandbox.calls import Call

#: Calls of these routes are told on standard error; queries and files would drown them.
REPORTED = {"submit", "callback"}


@dataclass(slots=True)
class Box:
    """The shared state; everything in it belongs to one event loop."""

    options: Options
    now: Callable[[], float] = time.time
    url: str = ""
    stopping: bool = False
    files: Files = field(default_factory=Files)
    submits: Windows = field(default_factory=Windows)
    queries: Windows = field(default_factory=Windows)
    tmdb_calls: Windows = field(default_factory=Windows)
    covers: Covers = field(default_factory=Covers)
    tasks: Tasks = field(init=False)
    calls: CallLog = field(init=False)
    faults: Faults = field(init=False)
    studio: Studio = field(init=False)
    journal: Journal = field(init=False)
    callbacks: Callbacks = field(init=False)
    references: References = field(init=False)
    _catalogue: Catalogue | None = None

    def __post_init__(self) -> None:
        self.tasks = Tasks(self.options)
        self.calls = CallLog(self.options.calls)
        self.faults = Faults(self.options.seed)
        self.studio = Studio(self.options)
        self.journal = Journal(self.options.state)
        self.callbacks = Callbacks(self)
        self.references = References(self)

    @property
    def catalogue(self) -> Catalogue:
        """The titles, made up when somebody asks for them first, and anew when there are to be more or fewer."""
        if self._catalogue is None or len(self._catalogue.titles) != self.options.titles:
            self._catalogue = make_catalogue(self.options.titles, self.options.seed)
        return self._catalogue

    def accept(self, task: Task, image_urls: list[str] | None = None) -> None:
        """Write an accepted task down, fetch its references, and call back when it ends."""
        self.journal.write(task)
        if image_urls:
            self.references.fetch(task, image_urls)
        self.callbacks.plan(task)

    def restore(self) -> None:
        """Take back what an earlier process had accepted."""
        for task in self.journal.read():
            self.tasks.add(task)
            self.callbacks.plan(task)

    def accepts_key(self, key: str) -> bool:
        """Say whether a key is one of ours; without a list any non-empty one is."""
        return key in self.options.keys if self.options.keys else bool(key)

    def report(self, call: Call) -> None:
        """Tell whoever watches the terminal."""
        if not self.options.quiet and (call.route in REPORTED or call.fault):
            fault = f"  fault: {call.fault}" if call.fault else ""
            line = f"{call.status} {call.provider} {call.route} {call.model} {call.task} {call.prompt[:60]!r}{fault}\n"
            sys.stderr.write(line)

    async def close(self) -> None:
        """Let go of threads, connections and the journal."""
        self.stopping = True
        await self.callbacks.close()
        await self.references.close()
        self.studio.close()
        self.journal.close()
