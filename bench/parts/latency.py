"""How soon an idle worker begins a job: from the commit of its enqueue until its handler is entered.

The commit's moment is taken by a callback on the committing thread, before anybody else hears of it. On PostgreSQL one
process enqueues and another works; SQLite is embedded, so both are one process.
"""

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Callable
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


def rows(ground: Ground) -> list[Row]:
    apart, embedded = GOALS
    figures = ground.rounds({apart: between_processes(ground), embedded: in_one_process(ground)})
    name = "commit of the enqueue to handler entered, idle, p50"
    return [limited(f"{name}: {place}", figures[place], "ms", goal) for place, goal in GOALS.items()]


def between_processes(ground: Ground) -> Callable[[], float]:
    def run() -> float:
        with ground.database("postgresql") as url, tempfile.TemporaryDirectory(prefix="longtake-bench-") as folder:
            path = Path(folder) / "moments"
            with recording(path, SAMPLES + 1):
                children.call("bench.ours:fill", url=url, jobs=0, kind="noop")
                with children.running("bench.ours:work", url=url, moments=str(path), kind="noop") as worker:
                    try:
                        return float(children.call("bench.parts.latency:enqueue_only", url=url, moments=str(path)))
                    except children.ChildFailed:
                        # When the worker is the one that failed, its words are the reason.
                        worker.check()
                        raise

    return run


def in_one_process(ground: Ground) -> Callable[[], float]:
    def run() -> float:
        with ground.database("sqlite") as url, tempfile.TemporaryDirectory(prefix="longtake-bench-") as folder:
            path = Path(folder) / "moments"
            with recording(path, SAMPLES + 1):
                return float(children.call("bench.parts.latency:enqueue_and_work", url=url, moments=str(path)))

    return run


def enqueue_only(url: str, moments: str) -> float:
    async def main() -> float:
        entered = Moments(Path(moments))
        async with ours.opened(url, [ours.kind_named("noop", None)]) as engine:
            return await sample(engine, entered)

    return asyncio.run(main())


def enqueue_and_work(url: str, moments: str) -> float:
    async def main() -> float:
        from longtake import Worker

        entered = Moments(Path(moments))
        async with ours.opened(url, [ours.kind_named("noop", entered)]) as engine:
            worker = Worker(engine)
            working = asyncio.create_task(worker.run())
            latency = await sample(engine, entered)
            worker.stop()
            await working
            return latency

    return asyncio.run(main())


async def sample(engine: "Engine", entered: Moments) -> float:
    """Return the median in milliseconds. Job 0 only shows that the worker is up."""
    latencies = []
    for number in range(SAMPLES + 1):
        committed: list[float] = []
        await engine.database.run(enqueue_noting, engine, number, committed)
        deadline = time.monotonic() + READY_SECONDS
        while not entered.at(number):
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {number} was not begun within {READY_SECONDS:g} s")
            await asyncio.sleep(0.005)
        latencies.append(entered.at(number) - committed[-1])
        # Not in step with any poll interval.
        await asyncio.sleep(random.uniform(0.02, 0.06))
    return statistics.median(latencies[1:]) * 1000


def enqueue_noting(tx: "Transaction", engine: "Engine", number: int, committed: list[float]) -> None:
    tx.after_commit(lambda: committed.append(time.monotonic()))
    engine.enqueue(tx, "noop", {"n": number})
