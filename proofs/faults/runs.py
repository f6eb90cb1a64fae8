"""What really ran, and when, from the evidence outside the database."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(eq=False)
class Run:
    """One run of a job's handler in one process, in seconds of the machine's monotonic clock."""

    job: str
    process: int
    lane: str
    began_at: float
    ended_at: float = math.inf


@dataclass(frozen=True)
class Sleep:
    """A process stood still from then to then."""

    process: int
    began_at: float
    ended_at: float


def runs(lines: Iterable[dict[str, Any]], deaths: Mapping[int, float]) -> list[Run]:
    """Pair the lines of each run; one that has no end ended with its process."""
    found: list[Run] = []
    open_runs: dict[tuple[str, int], Run] = {}
    for line in lines:
        if line["what"] not in {"start", "end", "stopped"}:
            continue
        place = (line["job"], line["process"])
        if line["what"] == "start":
            death = deaths.get(line["process"], math.inf)
            found.append(Run(line["job"], line["process"], line["lane"], line["at"], death))
            open_runs[place] = found[-1]
        elif place in open_runs:
            open_runs.pop(place).ended_at = line["at"]
    return found


def without_zombies(found: Iterable[Run], sleeps: Sequence[Sleep]) -> list[Run]:
    """Let a run end where its process fell asleep for so long that its lease may have gone to another.

    What it does between waking and hearing of that changes nothing: its writes are refused.
    """
    kept = []
    for run in found:
        asleep = [sleep.began_at for sleep in sleeps if sleep.process == run.process and sleep.ended_at > run.began_at]
        ended_at = min([run.ended_at, *asleep])
        if ended_at >= run.began_at:
            kept.append(Run(run.job, run.process, run.lane, run.began_at, ended_at))
    return kept


def crowd(found: Iterable[Run]) -> list[Run]:
    """Return those that ran side by side when most did."""
    changes = [(run.began_at, 1, run) for run in found]
    changes += [(run.ended_at, -1, run) for _at, _change, run in changes]
    running: list[Run] = []
    most: list[Run] = []
    for _at, change, run in sorted(changes, key=lambda one: one[:2]):
        if change > 0:
            running.append(run)
        else:
            running.remove(run)
        most = max(most, list(running), key=len)
    return most


def starts_too_close(found: Iterable[Run], spacing: float) -> list[tuple[Run, Run]]:
    """Return neighbours that began less than the spacing apart."""
    ordered = sorted(found, key=lambda run: run.began_at)
    return [(first, second) for first, second in pairwise(ordered) if second.began_at - first.began_at < spacing]
