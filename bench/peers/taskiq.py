"""taskiq's own worker command with its defaults (two processes) on a Redis stream, which acknowledges; results off."""

import asyncio
import os
import sys

APPLICATION = "bench.peers.taskiq_application:broker"


def fill(url: str, jobs: int) -> None:
    os.environ["BENCH_URL"] = url
    asyncio.run(enqueue(jobs))


async def enqueue(jobs: int) -> None:
    from bench.peers.taskiq_application import broker, noop

    await broker.startup()
    for number in range(jobs):
        await noop.kiq(number)
    await broker.shutdown()


def work(url: str, moments: str) -> None:
    os.environ.update(BENCH_URL=url, BENCH_MOMENTS=moments)
    arguments = ["worker", "--log-level", "WARNING", APPLICATION]
    os.execv(sys.executable, [sys.executable, "-m", "taskiq", *arguments])
