"""A sandbox: its options, most of which can change while it runs, and its clock, tasks, files, calls and faults."""

from __future__ import annotations

import math
import sys
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from longtake_sandbox.callbacks import LoopbackClient, fetch_references, plan_callback
from longtake_sandbox.calls import CallLog
from longtake_sandbox.faults import Faults
from longtake_sandbox.files import Covers, Files, Studio
from longtake_sandbox.tasks import Journal, Task, Tasks
from longtake_sandbox.titles import Catalogue, make_catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from longtake_sandbox.calls import Call, Exchange

#: Seconds that a generation takes. Names of models may be added as keys.
SECONDS = {"image": 2.0, "video": 5.0}
MOST_TITLES = 20_000
FASTSTART = ("half", "yes", "no")


@dataclass(frozen=True, slots=True)
class Limit:
    """A rate limit: at most ``count`` calls in any window of ``seconds``."""

    count: int
    seconds: float

    @classmethod
    def parse(cls, text: str) -> Limit:
        """Parse ``20/10`` as 20 calls in 10 seconds; raise ValueError for anything else."""
        count, _, seconds = text.partition("/")
        limit = cls(int(count), float(seconds or 1))
        if limit.count < 1 or limit.seconds <= 0:
            raise ValueError(text)
        return limit

    def __str__(self) -> str:
        return f"{self.count}/{self.seconds:g}"


@dataclass(slots=True)
class Options:
    """The options of one sandbox. They may change between two requests."""

    host: str = "127.0.0.1"
    port: int = 8090
    #: Keys that are accepted. Empty: any non-empty key is.
    keys: frozenset[str] = frozenset()
    seconds: dict[str, float] = field(default_factory=lambda: dict(SECONDS))
    #: A generation's duration varies by this share up and down, depending on its id.
    spread: float = 0.5
    instant: bool = False
    submit_limit: Limit | None = None
    query_limit: Limit | None = None
    tmdb_limit: Limit | None = Limit(40, 1.0)
    #: How many titles Bangumi has.
    titles: int = 200
    #: How long a file's URL works.
    url_seconds: float = 24 * 3600.0
    webhook_key: str = ""
    seed: int = 0
    #: Whether an MP4 has its index in front: always, never, or for half of the prompts.
    faststart: str = "half"
    state: str = ""
    #: How many calls the log keeps.
    calls: int = 500_000
    quiet: bool = False

    def duration(self, model: str, kind: str) -> float:
        """Return the average duration of the model, or else of its kind."""
        return self.seconds.get(model, self.seconds.get(kind, 0.0))


class RateLimiter:
    """An exact sliding window for each key. Refused calls do not count."""

    def __init__(self) -> None:
        self._times: defaultdict[str, deque[float]] = defaultdict(deque)

    def admit(self, key: str, limit: Limit | None, now: float) -> bool:
        """Return whether a call is within the limit, and count it if so."""
        if limit is None:
            return True
        times = self._times[key]
        while times and times[0] <= now - limit.seconds:
            times.popleft()
        if len(times) >= limit.count:
            return False
        times.append(now)
        return True

    def wait(self, key: str, limit: Limit, now: float) -> float:
        """Return the seconds until the next call is within the limit."""
        times = self._times[key]
        return max(times[0] + limit.seconds - now, 0.0) if len(times) >= limit.count else 0.0


#: Routes whose calls are printed to standard error. Queries and files would drown them.
REPORTED = {"submit", "callback"}


class Sandbox:
    """The state that all routes share. It belongs to one event loop."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.now = time.time
        self.url = ""
        self.stopping = False
        self.limiter = RateLimiter()
        self.files = Files()
        self.covers = Covers()
        self.tasks = Tasks(options)
        self.calls = CallLog(options.calls)
        self.faults = Faults(options.seed)
        self.studio = Studio(options)
        self.journal = Journal(options.state)
        self.client = LoopbackClient()
        #: Builds the body of a callback for each family of tasks.
        self.callback_shapes: dict[str, Callable[[Sandbox, Task], dict[str, Any]]] = {}
        self._catalogue: Catalogue | None = None

    @property
    def catalogue(self) -> Catalogue:
        """Return the titles. They are generated on first use, and again when `options.titles` changes."""
        if self._catalogue is None or len(self._catalogue.titles) != self.options.titles:
            self._catalogue = make_catalogue(self.options.titles, self.options.seed)
        return self._catalogue

    def submit(
        self, exchange: Exchange, family: str, kind: str, *, image_urls: Sequence[str] = (), **fields: Any
    ) -> Task:
        """Accept the task of a submit. Its fault may name an earlier task instead, or make the task run forever."""
        if exchange.has_fault("duplicate_id") and (earlier := self.tasks.newest(family)):
            exchange.task = earlier.id
            return earlier
        task = self.tasks.new(
            exchange.provider, family, exchange.model, kind, exchange.prompt,
            now=self.now(), callback_url=exchange.callback_url, **fields,
        )  # fmt: skip
        if exchange.has_fault("running"):
            task.seconds = math.inf
        self.journal.write(task)
        if image_urls:
            task.fetching = True
            self.client.start(fetch_references(self, task, image_urls))
        plan_callback(self, task)
        exchange.task = task.id
        return task

    def restore(self) -> None:
        for task in self.journal.read():
            self.tasks.add(task)
            plan_callback(self, task)

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
        self.stopping = True
        await self.client.close()
        self.studio.close()
        self.journal.close()
