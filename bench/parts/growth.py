"""What a claim costs when a million jobs are there that cannot run: not due yet, or due in a lane that is full.

The claim is timed inside its transaction, without the commit: a slow disk would only hide growth.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from bench import children, ours
from bench.ground import Ground, say
from bench.rows import Row, compared

if TYPE_CHECKING:
    from longtake import Engine, JobRequest, Transaction

FEW = 10_000
MANY = 1_000_000
SAMPLES = 100
WANTED = 100
SEED_SECONDS = 900.0
A_DAY = 86_400.0
KIND = "noop"
NORMAL = 2
SITUATIONS = {"waiting": "waiting for their time", "blocked": "due, blocked by their lane"}
LABELS = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}


def rows(ground: Ground) -> list[Row]:
    return [
        row_for(ground, dialect, situation, meaning)
        for dialect in ("postgresql", "sqlite")
        for situation, meaning in SITUATIONS.items()
    ]


def row_for(ground: Ground, dialect: str, situation: str, meaning: str) -> Row:
    many = ground.options.number(MANY)
    with ExitStack() as stack:
        figures = ground.rounds(
            {f"{jobs:,} {situation}": claims(ground, stack, dialect, situation, jobs) for jobs in (FEW, many)}
        )
    small, large = figures.values()
    name = f"claim on {LABELS[dialect]}, {many:,} live jobs {meaning}"
    return compared(name, large, "ms", f"the same with {FEW:,}", small, "<= 2")


def claims(ground: Ground, stack: ExitStack, dialect: str, situation: str, jobs: int) -> Callable[[], float]:
    """Fill a database in the first round and keep it for the others; then time claims in it."""
    filled: list[str] = []

    def run() -> float:
        if not filled:
            url = stack.enter_context(ground.database(dialect))
            say(f"  enqueueing {jobs:,} jobs on {LABELS[dialect]}, {SITUATIONS[situation]} …")
            children.call("bench.parts.growth:seed", SEED_SECONDS, url=url, situation=situation, jobs=jobs)
            filled.append(url)
        return float(children.call("bench.parts.growth:time_claims", url=filled[0], situation=situation))

    return run


def seed(url: str, situation: str, jobs: int) -> None:
    async def main() -> None:
        async with opened(url) as engine:
            await ours.enqueue_all(engine, requests(situation, jobs))

    asyncio.run(main())


def requests(situation: str, jobs: int) -> "Iterator[JobRequest]":
    from longtake import JobRequest

    for number in range(jobs):
        if situation == "waiting":
            yield JobRequest(KIND, {"n": number}, delay=A_DAY)
        else:
            yield JobRequest(KIND, {"n": number}, lane="blocked")


def opened(url: str) -> Any:
    from longtake import Lane

    return ours.opened(url, [ours.kind_named(KIND, None)], [Lane("blocked", max_running=1)])


def time_claims(url: str, situation: str) -> float:
    """Return the median in milliseconds of claiming one due job out of all."""

    async def main() -> float:
        async with opened(url) as engine:
            return statistics.median([await time_claim(engine, situation) for _ in range(SAMPLES)]) * 1000

    return asyncio.run(main())


async def time_claim(engine: "Engine", situation: str) -> float:
    await engine.database.run(engine.enqueue, KIND, {"n": 0})
    taken, claimed = await engine.database.run(claim, engine, situation)
    assert claimed == 1, f"claimed {claimed} jobs where one was free"
    return taken


def claim(tx: "Transaction", engine: "Engine", situation: str) -> tuple[float, int]:
    """Do what a worker does in one round: claim from open lanes and look what waits, then try the limited one.

    The first round takes the blocked lane's one place, so that all others find it full.
    """
    from longtake.clock import new_id
    from longtake.engine.leases import register_worker
    from longtake.engine.queue import QueueName

    worker = new_id()
    register_worker(tx, worker, "bench", engine.database.incarnation, 3600.0)
    free, limited = QueueName("default", KIND, NORMAL), QueueName("blocked", KIND, NORMAL)
    start = time.perf_counter()
    claimed = engine.exchange(tx, [], [free, limited], worker, WANTED, look=False)
    if situation == "blocked":
        engine.claim_lane(tx, "blocked", [limited], worker, WANTED)
    return time.perf_counter() - start, len(claimed.jobs)
