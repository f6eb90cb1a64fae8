"""arq's worker in one process, many jobs at a time, without keeping results."""

import asyncio
from pathlib import Path
from typing import Any

from bench.moments import Moments

# It sleeps between polls, so its rate follows from this; the default of 10 gives a sixth.
MAX_JOBS = 300


async def noop(context: dict[str, Any], number: int) -> None:
    context["moments"].mark(number)


def fill(url: str, jobs: int) -> None:
    asyncio.run(enqueue(url, jobs))


async def enqueue(url: str, jobs: int) -> None:
    from arq import create_pool
    from arq.connections import RedisSettings

    pool = await create_pool(RedisSettings.from_dsn(url))
    for number in range(jobs):
        await pool.enqueue_job("noop", number)
    await pool.aclose()


def work(url: str, moments: str) -> None:
    from arq import Worker
    from arq.connections import RedisSettings

    # arq takes the event loop from the policy instead of making one.
    asyncio.set_event_loop(asyncio.new_event_loop())
    worker = Worker(
        functions=[noop],  # type: ignore[list-item]
        redis_settings=RedisSettings.from_dsn(url),
        max_jobs=MAX_JOBS,
        keep_result=0,
        log_results=False,
        ctx={"moments": Moments(Path(moments))},
    )
    worker.run()
