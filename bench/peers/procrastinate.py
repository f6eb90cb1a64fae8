"""procrastinate's worker on its psycopg connector, several jobs at a time."""

import asyncio
from pathlib import Path
from typing import Any

from bench.moments import Moments

# Faster than its default of one, and than 30 or 100.
CONCURRENCY = 10
CHUNK = 1_000


def application(url: str, moments: Moments | None) -> Any:
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=url))

    @app.task(name="noop")
    async def noop(number: int) -> None:
        assert moments is not None
        moments.mark(number)

    return app


def fill(url: str, jobs: int) -> None:
    asyncio.run(enqueue(url, jobs))


async def enqueue(url: str, jobs: int) -> None:
    app = application(url, None)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for start in range(0, jobs, CHUNK):
            numbers = range(start, min(start + CHUNK, jobs))
            await app.tasks["noop"].batch_defer_async(*({"number": number} for number in numbers))


def work(url: str, moments: str) -> None:
    asyncio.run(consume(url, Moments(Path(moments))))


async def consume(url: str, moments: Moments) -> None:
    app = application(url, moments)
    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY)
