"""pgqueuer on asyncpg and uvloop, as its own command runs it, with batches of 100."""

import asyncio
from pathlib import Path

from bench.moments import Moments

BATCH = 100
CHUNK = 5_000


def fill(url: str, jobs: int, analyze: bool) -> None:  # noqa: FBT001 - arguments arrive by name, from JSON
    asyncio.run(enqueue(url, jobs, analyze=analyze))


async def enqueue(url: str, jobs: int, *, analyze: bool) -> None:
    import asyncpg
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    for start in range(0, jobs, CHUNK):
        numbers = range(start, min(start + CHUNK, jobs))
        payloads: list[bytes | None] = [b"%d" % number for number in numbers]
        await queries.enqueue(["noop"] * len(numbers), payloads, [0] * len(numbers))
    if analyze:
        await connection.execute("ANALYZE")
    await connection.close()


def work(url: str, moments: str, analyze: bool) -> None:  # noqa: ARG001, FBT001 - the same options as for filling
    import uvloop

    uvloop.run(consume(url, Moments(Path(moments))))


async def consume(url: str, moments: Moments) -> None:
    import asyncpg
    from pgqueuer import PgQueuer
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.models import Job

    connection = await asyncpg.connect(url)
    queuer = PgQueuer(AsyncpgDriver(connection))

    @queuer.entrypoint("noop")
    async def noop(job: Job) -> None:
        moments.mark(int(job.payload or b""))

    await queuer.run(batch_size=BATCH)
