"""Group commit: single enqueues from many concurrent callers share commits, each caller hearing only after its own."""

import asyncio
import time
from collections.abc import Callable

from bench import children, ours
from bench.ground import Ground
from bench.rows import Row, compared

CALLERS = 64
TOGETHER = 12_800
ALONE = 2_000


def rows(ground: Ground) -> list[Row]:
    together = f"{CALLERS} callers"
    figures = ground.rounds({together: enqueue(ground, CALLERS, TOGETHER), "one caller": enqueue(ground, 1, ALONE)})
    return [
        compared(
            f"single enqueues on SQLite FULL, {CALLERS} concurrent callers",
            figures[together],
            "jobs/s",
            "one caller, one commit each",
            figures["one caller"],
            ">= 5",
        )
    ]


def enqueue(ground: Ground, callers: int, jobs: int) -> Callable[[], float]:
    def run() -> float:
        with ground.database("sqlite") as url:
            number = ground.options.number(jobs)
            return float(children.call("bench.parts.group_commit:measure", url=url, callers=callers, jobs=number))

    return run


def measure(url: str, callers: int, jobs: int) -> float:
    return asyncio.run(enqueue_by(url, callers, jobs))


async def enqueue_by(url: str, callers: int, jobs: int) -> float:
    """Return enqueues per second; every enqueue is a transaction of its own, awaited before the caller's next."""
    async with ours.opened(url, [ours.kind_named("noop", None)]) as engine:
        numbers = iter(range(jobs))

        async def caller() -> None:
            for number in numbers:
                await engine.database.run(engine.enqueue, "noop", {"n": number})

        start = time.monotonic()
        await asyncio.gather(*(caller() for _ in range(callers)))
        return jobs / (time.monotonic() - start)
