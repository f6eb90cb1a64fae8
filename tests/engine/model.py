"""What should be so: the engine's jobs as a few lines of plain Python, for the state machine to compare with."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from longtake import Cancelled, Done, Fail, Outcome, Retry, Snooze

MAX_ATTEMPTS = 4
STEPS = (5.0, 20.0)
NARROW_MOST = 2
TIMED_RATE = (3, 10.0)
TIMED_SPACING = 1.0
#: The databases keep microseconds; a few claims' roundings add up.
ROUNDING = 1e-4


@dataclass
class ModelJob:
    """One job; ``runs`` numbers its claims, so that each accepted outcome has an effect of its own."""

    id: str
    kind: str
    key: str | None
    due: datetime
    state: str = "ready"
    attempt: int = 0
    crashes: int = 0
    snoozes: int = 0
    runs: int = 0
    alone: bool = False
    token: str | None = None
    worker: str | None = None
    timeline: list[tuple[int, str]] = field(default_factory=list)

    @property
    def live(self) -> bool:
        return self.state in {"ready", "running"}

    def claim(self, token: str, worker: str) -> None:
        self.state, self.token, self.worker = "running", token, worker
        self.attempt += 1
        self.runs += 1

    def end(self, state: str, outcome: str | None = None) -> None:
        if self.state == "running":
            self.timeline.append((self.attempt, outcome or state))
        self.state, self.token, self.worker = state, None, None

    def put_back(self, due: datetime) -> None:
        self.state, self.token, self.worker, self.alone, self.due = "ready", None, None, False, due


class Model:
    """All jobs, all effects, and when handlers of the timed lane began."""

    def __init__(self) -> None:
        self.jobs: dict[str, ModelJob] = {}
        self.effects: set[tuple[str, int]] = set()
        self.starts: list[float] = []

    def with_key(self, kind: str, key: str) -> ModelJob | None:
        """Return the live job with this key."""
        return next((job for job in self.jobs.values() if job.live and (job.kind, job.key) == (kind, key)), None)

    def due(self, kind: str, now: datetime) -> set[str]:
        """Return what may be claimed now, as far as time decides it."""
        return {job.id for job in self.jobs.values() if job.kind == kind and job.state == "ready" and job.due <= now}

    def running(self, kind: str) -> int:
        return sum(job.kind == kind and job.state == "running" for job in self.jobs.values())

    def finish(self, job: ModelJob, outcome: Outcome, now: datetime) -> None:
        """Apply an outcome of the run that holds the lease."""
        self.effects.add((job.id, job.runs))
        match outcome:
            case Done():
                job.end("done")
            case Fail():
                job.end("failed")
            case Cancelled():
                job.end("cancelled")
            case Snooze():
                job.put_back(now + timedelta(seconds=outcome.seconds))
                job.attempt -= 1
                if outcome.progress:
                    job.attempt = job.crashes = 0
                job.snoozes += 1
            case Retry() if job.attempt < MAX_ATTEMPTS:
                job.timeline.append((job.attempt, "retry"))
                job.put_back(now + timedelta(seconds=STEPS[min(job.attempt, len(STEPS)) - 1]))
            case Retry():
                job.end("failed")

    def crash(self, job: ModelJob, now: datetime) -> None:
        """Its worker died."""
        if job.crashes >= 2 and not job.alone:
            job.put_back(now)
            job.attempt -= 1
            return
        job.crashes += 1
        if job.crashes > 2 or job.attempt >= MAX_ATTEMPTS:
            self.effects.add((job.id, 0))
            job.end("failed", "crashed")
        else:
            job.timeline.append((job.attempt, "crashed"))
            job.put_back(now)

    def cancel(self, job: ModelJob, *, settled: bool) -> None:
        if settled:
            self.effects.add((job.id, 0))
        job.end("cancelled")

    def check_starts(self) -> None:
        """No window of the lane's period holds more starts than its rate, and none are closer than its spacing."""
        starts = sorted(self.starts)
        count, period = TIMED_RATE
        assert all(b - a >= TIMED_SPACING - ROUNDING for a, b in itertools.pairwise(starts)), starts
        assert all(b - a >= period - ROUNDING for a, b in zip(starts, starts[count:], strict=False)), starts
