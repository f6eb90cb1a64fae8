"""What waiting costs: 10,000 jobs that look again every 30 seconds, measured over two whole cycles.

All of them fall due together, which is the worst they can do. The processor time is the worker's and, on PostgreSQL,
the server's; the memory is the worker's peak, against that of a worker with nothing to do.
"""

import asyncio
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from bench import children, ours
from bench.ground import Ground, reason, say
from bench.rows import Measured, Row, limited
from bench.usage import server_seconds

if TYPE_CHECKING:
    from longtake import JobKind

JOBS = 10_000
CYCLE_SECONDS = 30.0
CYCLES = 2
# Counting begins in the quiet middle between two bursts, so that the window holds whole cycles.
SETTLE_SECONDS = CYCLE_SECONDS / 2
GLANCE_SECONDS = 0.1
KIND = "snoozing"
LABELS = {"postgresql": "PostgreSQL, worker and server", "sqlite": "SQLite"}


def rows(ground: Ground) -> list[Row]:
    return [row for dialect in LABELS for row in rows_on(ground, dialect)]


def rows_on(ground: Ground, dialect: str) -> list[Row]:
    jobs = ground.options.number(JOBS)
    try:
        busy, idle = observe(ground, dialect, jobs)
    except Exception as failure:  # noqa: BLE001 - whatever it was, it is the reason for the missing figures
        share = growth = Measured(reason=reason(failure))
    else:
        share = Measured(100 * busy["processor"] / (CYCLES * CYCLE_SECONDS))
        growth = Measured((busy["peak"] - idle["peak"]) / 1_000_000)
    name = f"{jobs:,} jobs snoozing {CYCLE_SECONDS:g} s on {LABELS[dialect]}"
    return [
        limited(f"{name}: processor", share, "% of a core", "<= 25 % of a core"),
        limited(f"{name}: memory above none", growth, "MB", "<= 20 MB"),
    ]


def observe(ground: Ground, dialect: str, jobs: int) -> tuple[dict[str, float], dict[str, float]]:
    """Run both workers at the same time, each on a database of its own."""
    with ExitStack() as stack:
        watched = []
        for number in (jobs, 0):
            url = stack.enter_context(ground.database(dialect))
            children.call("bench.parts.snoozing:seed", url=url, jobs=number)
            watched.append(stack.enter_context(children.running("bench.parts.snoozing:watch", url=url, jobs=number)))
        say(f"  watching {jobs:,} snoozing jobs on {dialect} for {SETTLE_SECONDS + CYCLES * CYCLE_SECONDS:g} s …")
        before = server_seconds(ground.postgresql.pid) if dialect == "postgresql" else 0.0
        busy, idle = (child.result(timeout=180.0) for child in watched)
        if dialect == "postgresql":
            # The server's share of the first half cycle is in this as well: it can only be too high.
            busy["processor"] += server_seconds(ground.postgresql.pid) - before
        return busy, idle


def seed(url: str, jobs: int) -> None:
    async def main() -> None:
        from longtake import JobRequest

        async with ours.opened(url, [snoozing_kind([])]) as engine:
            await ours.enqueue_all(engine, (JobRequest(KIND, {"n": number}) for number in range(jobs)))

    asyncio.run(main())


def snoozing_kind(looks: list[None]) -> "JobKind":
    from longtake import Job, JobKind, Snooze

    async def handler(_job: Job) -> Snooze:
        looks.append(None)
        return Snooze(CYCLE_SECONDS)

    return JobKind(KIND, handler)


def watch(url: str, jobs: int) -> dict[str, float]:
    return asyncio.run(work_and_count(url, jobs))


async def work_and_count(url: str, jobs: int) -> dict[str, float]:
    import psutil  # type: ignore[import-untyped]

    from longtake import Worker

    looks: list[None] = []
    this_process = psutil.Process()
    async with ours.opened(url, [snoozing_kind(looks)]) as engine:
        worker = Worker(engine)
        working = asyncio.create_task(worker.run())
        await asyncio.sleep(SETTLE_SECONDS)
        looks.clear()
        start, before, peak = time.monotonic(), time.process_time(), 0
        while time.monotonic() - start < CYCLES * CYCLE_SECONDS:
            # Looked at again and again: the peak that the system keeps is that of starting up.
            peak = max(peak, this_process.memory_info().rss)
            await asyncio.sleep(GLANCE_SECONDS)
        processor = time.process_time() - before
        worker.stop()
        await working
    assert len(looks) >= jobs * CYCLES, f"only {len(looks)} of {jobs * CYCLES} looks were taken"
    return {"processor": processor, "peak": peak}
