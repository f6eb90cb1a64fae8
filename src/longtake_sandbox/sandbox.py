"""The state of a sandbox: its options, clock, tasks, files, calls and faults."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from longtake_sandbox.callbacks import Callbacks
from longtake_sandbox.calls import CallLog
from longtake_sandbox.faults import Faults
from longtake_sandbox.files import Files
from longtake_sandbox.options import Options, RateLimiter
from longtake_sandbox.posters import Covers
from longtake_sandbox.references import References
from longtake_sandbox.studio import Studio
from longtake_sandbox.tasks import Journal, Task, Tasks
from longtake_sandbox.titles import Catalogue, make_catalogue

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtake_sandbox.calls import Call
    from longtake_sandbox.exchange import Exchange

#: Routes whose calls are printed to standard error. Queries and files would drown them.
REPORTED = {"submit", "callback"}


@dataclass(slots=True)
class Sandbox:
    """The state that all routes share. It belongs to one event loop."""

    options: Options
    now: Callable[[], float] = time.time
    url: str = ""
    stopping: bool = False
    files: Files = field(default_factory=Files)
    submits: RateLimiter = field(default_factory=RateLimiter)
    queries: RateLimiter = field(default_factory=RateLimiter)
    tmdb_calls: RateLimiter = field(default_factory=RateLimiter)
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
        """Return the titles. They are generated on first use, and again when `options.titles` changes."""
        if self._catalogue is None or len(self._catalogue.titles) != self.options.titles:
            self._catalogue = make_catalogue(self.options.titles, self.options.seed)
        return self._catalogue

    def submit(
        self,
        exchange: Exchange,
        family: str,
        kind: str,
        *,
        param: dict[str, Any],
        prefix: str = "",
        callback_url: str = "",
        references: tuple[bytes, ...] = (),
        image_urls: list[str] | None = None,
    ) -> Task:
        """Accept the task of a submit. Its fault may name an earlier task instead, or make the task run forever."""
        if exchange.has_fault("duplicate_id") and (earlier := self.tasks.newest(family)):
            exchange.task = earlier.id
            return earlier
        task = self.tasks.new(
            exchange.provider, family, exchange.model, kind, exchange.prompt,
            now=self.now(), prefix=prefix, param=param, callback_url=callback_url,
        )  # fmt: skip
        task.references = references
        if exchange.has_fault("running"):
            task.seconds = math.inf
        self.accept(task, image_urls)
        exchange.task = task.id
        return task

    def accept(self, task: Task, image_urls: list[str] | None = None) -> None:
        """Record the task, start to fetch its references, and plan its callback."""
        self.journal.write(task)
        if image_urls:
            self.references.fetch(task, image_urls)
        self.callbacks.plan(task)

    def restore(self) -> None:
        """Load the tasks that an earlier process accepted."""
        for task in self.journal.read():
            self.tasks.add(task)
            self.callbacks.plan(task)

    def accepts_key(self, key: str) -> bool:
        """Return whether the key is valid. Without a list of keys any non-empty one is."""
        return key in self.options.keys if self.options.keys else bool(key)

    def report(self, call: Call) -> None:
        """Print submits, callbacks and faults to standard error."""
        if not self.options.quiet and (call.route in REPORTED or call.fault):
            fault = f"  fault: {call.fault}" if call.fault else ""
            line = f"{call.status} {call.provider} {call.route} {call.model} {call.task} {call.prompt[:60]!r}{fault}\n"
            sys.stderr.write(line)

    async def close(self) -> None:
        """Close threads, connections and the journal."""
        self.stopping = True
        await self.callbacks.close()
        await self.references.close()
        self.studio.close()
        self.journal.close()
