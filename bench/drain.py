"""How fast a full queue is worked off: the same no-op job, the same clock and the same end for every contender.

The clock runs from the first handler entered (so starting an interpreter, importing and connecting count for nobody)
until the contender's own state says that every job is over. Each job must have been entered, or there is no figure.
"""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import children
from bench.moments import Moments, recording
from bench.settled import Observer

GLANCE_SECONDS = 0.01
END_GLANCE_SECONDS = 0.002
STALL_SECONDS = 30.0


@dataclass(frozen=True)
class Contender:
    """A module with `fill(url, jobs)` and `work(url, moments)`, and how to see from outside that it is through."""

    name: str
    module: str
    jobs: int
    observe: Observer
    options: tuple[tuple[str, object], ...] = ()

    def drain(self, url: str, jobs: int | None = None) -> float:
        """Return jobs per second on an empty database of its own."""
        number = jobs or self.jobs
        with tempfile.TemporaryDirectory(prefix="longtake-bench-") as folder:
            path = Path(folder) / "moments"
            options: dict[str, Any] = dict(self.options)
            with recording(path, number) as moments:
                children.call(f"{self.module}:fill", url=url, jobs=number, **options)
                with children.running(f"{self.module}:work", url=url, moments=str(path), **options) as worker:
                    end = self._wait_for_end(url, moments, worker)
                return number / (end - moments.first())

    def _wait_for_end(self, url: str, moments: Moments, worker: children.Child) -> float:
        self._wait_for_last_job(moments, worker)
        deadline = time.monotonic() + STALL_SECONDS
        with self.observe(url) as is_over:
            while not is_over():
                worker.check()
                if time.monotonic() > deadline:
                    raise children.ChildFailed(f"{self.name} ran all jobs but did not store their end")
                time.sleep(END_GLANCE_SECONDS)
            return time.monotonic()

    def _wait_for_last_job(self, moments: Moments, worker: children.Child) -> None:
        """However long it takes, as long as it goes on."""
        reached, deadline = 0, time.monotonic() + STALL_SECONDS
        while not moments.is_complete():
            worker.check()
            if time.monotonic() > deadline:
                before, reached = reached, moments.entered()
                if reached == before:
                    raise children.ChildFailed(f"{self.name} stood still for {STALL_SECONDS:g} s after {reached} jobs")
                deadline = time.monotonic() + STALL_SECONDS
            time.sleep(GLANCE_SECONDS)
