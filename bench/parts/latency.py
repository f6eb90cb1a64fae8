"""How soon a worker with little to do begins a job: from the commit of its enqueue until its handler is entered.

Either nothing runs when the job comes, or single jobs come and go, each of which takes longer than the next is away.
The commit's moment is taken by a callback on the committing thread, before anybody else hears of it. On PostgreSQL one
process enqueues and another works; SQLite is embedded, so both are one process.
"""

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench import children, ours
from bench.ground import Ground
from bench.moments import Moments, recording
from bench.rows import Row, limited

if TYPE_CHECKING:
    from longtake import Engine, Transaction

SAMPLES = 100
GOALS = {"PostgreSQL, enqueued by another process": "<= 5 ms", "SQLite FULL, embedded": "<= 2 ms"}
READY_SECONDS = 30.0


@dataclass(frozen=True)
class Traffic:
    """Which jobs come, and how long after the last one has begun; not in step with any poll interval."""

    words: str
    kind: str
    shortest_pause: float
    longest_pause: float


TRAFFIC = {
    one.kind: one
    for one in (
        Traffic("idle", "noop", 0.02, 0.06),
        Traffic("single jobs come and go", "lasting", 0.05, 0.2),
    )
}


def rows(ground: Ground) -> list[Row]:
    apart, embedded = GOALS
    contenders = {(kind, apart): between_processes(ground, kind) for kind in TRAFFIC}
    contenders |= {(kind, embedded): in_one_process(ground, kind) for kind in TRAFFIC}
    figures = ground.rounds({f"{kind} {place}": measure for (kind, place), measure in contenders.items()})
    return [
        limited(
            f"commit of the enqueue to handler entered, {one.words}, p50: {place}",
            figures[f"{one.kind} {place}"],
            "ms",
            goal,
        )
        for one in TRAFFIC.values()
        for place, goal in GOALS.items()
    ]


def between_processes(ground: Ground, kind: str) -> Callable[[], float]:
    def run() -> float:
        with ground.database("postgresql") as url, tempfile.TemporaryDirectory(prefix="longtake-bench-") as folder:
            path = Path(folder) / "moments"
            with recording(path, SAMPLES + 1):
                children.call("bench.ours:fill", url=url, jobs=0, kind=kind)
                with children.running("bench.ours:work", url=url, moments=str(path), kind=kind) as worker:
                    try:
                        names = {"url": url, "moments": str(path), "kind": kind}
                        return float(children.call("bench.parts.latency:enqueue_only", **names))
                    except children.ChildFailed:
                        # When the worker is the one that failed, its words are the reason.
                        worker.check()
                        raise

    return run


def in_one_process(ground: Ground, kind: str) -> Callable[[], float]:
    def run() -> float:
        with ground.database("sqlite") as url, tempfile.TemporaryDirectory(prefix="longtake-bench-") as folder:
            path = Path(folder) / "moments"
            with recording(path, SAMPLES + 1):
                names = {"url": url, "moments": str(path), "kind": kind}
                return float(children.call("bench.parts.latency:enqueue_and_work", **names))

    return run


def enqueue_only(url: str, moments: str, kind: str) -> float:
    async def main() -> float:
        entered = Moments(Path(moments))
        async with ours.opened(url, [ours.kind_named(kind, None)]) as engine:
            return await sample(engine, entered, TRAFFIC[kind])

    return asyncio.run(main())


def enqueue_and_work(url: str, moments: str, kind: str) -> float:
    async def main() -> float:
        from longtake import Worker

        entered = Moments(Path(moments))
        async with ours.opened(url, [ours.kind_named(kind, entered)]) as engine:
            worker = Worker(engine)
            working = asyncio.create_task(worker.run())
            latency = await sample(engine, entered, TRAFFIC[kind])
            worker.stop()
            await working
            return latency

    return asyncio.run(main())


async def sample(engine: "Engine", entered: Moments, traffic: Traffic) -> float:
    """Return the median in milliseconds. Job 0 only shows that the worker is up."""
    latencies = []
    for number in range(SAMPLES + 1):
        committed: list[float] = []
        await engine.database.run(enqueue_noting, engine, traffic.kind, number, committed)
        deadline = time.monotonic() + READY_SECONDS
        while not entered.at(number):
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {number} was not begun within {READY_SECONDS:g} s")
            await asyncio.sleep(0.005)
        latencies.append(entered.at(number) - committed[-1])
        await asyncio.sleep(random.uniform(traffic.shortest_pause, traffic.longest_pause))
    return statistics.median(latencies[1:]) * 1000


def enqueue_noting(tx: "Transaction", engine: "Engine", kind: str, number: int, committed: list[float]) -> None:
    tx.after_commit(lambda: committed.append(time.monotonic()))
    engine.enqueue(tx, kind, {"n": number})
