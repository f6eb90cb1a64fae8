"""Longtake as a contender: shipped defaults, with attempts, events and history on.

Everything here runs inside a child process of its own; the library is imported only there.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.drain import Contender
from bench.moments import Moments
from bench.settled import in_postgresql, in_sqlite

if TYPE_CHECKING:
    from longtake import Engine, JobKind, JobRequest, Lane, Settlement, Transaction, Worker

CHUNK = 1_000
#: Of the kind `lasting`: as long as a short request to a provider.
LASTING_SECONDS = 0.3
DOMAIN_TABLES = (
    "CREATE TABLE bench_tasks (id integer PRIMARY KEY, state text NOT NULL)",
    "CREATE TABLE bench_results (task_id integer NOT NULL, address text NOT NULL)",
)
NOTHING_LEFT = "SELECT NOT EXISTS (SELECT 1 FROM jobs)"
EVERY_EFFECT_ONCE = (
    "SELECT NOT EXISTS (SELECT 1 FROM jobs) AND NOT EXISTS (SELECT 1 FROM bench_tasks WHERE state <> 'done')"
    " AND (SELECT count(*) FROM bench_results) = (SELECT count(*) FROM bench_tasks)"
)

NOOP = (("kind", "noop"),)
REALISTIC = (("kind", "realistic"),)
ON_POSTGRESQL = Contender("longtake", "bench.ours", 50_000, in_postgresql(NOTHING_LEFT), NOOP)
ON_SQLITE = Contender("longtake", "bench.ours", 50_000, in_sqlite(NOTHING_LEFT), NOOP)
REALISTIC_ON_POSTGRESQL = Contender("longtake", "bench.ours", 50_000, in_postgresql(EVERY_EFFECT_ONCE), REALISTIC)
REALISTIC_ON_SQLITE = Contender("longtake", "bench.ours", 50_000, in_sqlite(EVERY_EFFECT_ONCE), REALISTIC)


@asynccontextmanager
async def opened(url: str, kinds: "Sequence[JobKind]", lanes: "Sequence[Lane]" = ()) -> "AsyncIterator[Engine]":
    """Bring the database up to date, open it and declare the kinds."""
    from longtake import Engine, migrate_up, open_database

    await asyncio.to_thread(migrate_up, url)
    database = open_database(url)
    try:
        engine = Engine(database, kinds=kinds, lanes=lanes)
        await engine.start()
        yield engine
    finally:
        database.close()


async def enqueue_all(engine: "Engine", requests: "Iterable[JobRequest]") -> None:
    """Enqueue in transactions of a thousand jobs."""
    chunk: list[JobRequest] = []
    for request in requests:
        chunk.append(request)
        if len(chunk) == CHUNK:
            await engine.database.run(engine.enqueue_many, chunk)
            chunk = []
    if chunk:
        await engine.database.run(engine.enqueue_many, chunk)


async def work_until_told(worker: "Worker") -> None:
    """Run a worker until the measuring process asks it to end."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    await worker.run()


def kind_named(name: str, moments: Moments | None) -> "JobKind":
    from longtake import Done, Job, JobKind

    async def handler(job: Job) -> Done:
        number = job.args["n"]
        assert moments is not None
        moments.mark(number)
        if name == "lasting":
            await asyncio.sleep(LASTING_SECONDS)
        return Done(data=number)

    return JobKind(name, handler, settle=settle if name == "realistic" else None)


def settle(tx: "Transaction", _engine: "Engine", settlements: "Sequence[Settlement]") -> None:
    """The realistic job's effects: one row updated and one inserted for each, for the whole batch at once."""
    numbers = [settlement.outcome.data for settlement in settlements]
    addresses = [f"results/{number}.png" for number in numbers]
    if tx.dialect == "sqlite":
        tx.sql_many("UPDATE bench_tasks SET state = 'done' WHERE id = ?", [(number,) for number in numbers])
        tx.sql_many("INSERT INTO bench_results VALUES (?, ?)", list(zip(numbers, addresses, strict=True)))
    else:
        tx.sql("UPDATE bench_tasks SET state = 'done' WHERE id = ANY(%s::int[])", [numbers])
        tx.sql("INSERT INTO bench_results SELECT * FROM unnest(%s::int[], %s::text[])", [numbers, addresses])


def fill(url: str, jobs: int, kind: str) -> None:
    asyncio.run(fill_queue(url, jobs, kind))


async def fill_queue(url: str, jobs: int, kind: str) -> None:
    from longtake import JobRequest

    async with opened(url, [kind_named(kind, None)]) as engine:
        if kind == "realistic":
            await engine.database.run(create_domain, jobs)
        await enqueue_all(engine, (JobRequest(kind, {"n": number}) for number in range(jobs)))


def create_domain(tx: "Transaction", jobs: int) -> None:
    for statement in DOMAIN_TABLES:
        tx.sql(statement)
    placeholder = "?" if tx.dialect == "sqlite" else "%s"
    tx.sql_many(f"INSERT INTO bench_tasks VALUES ({placeholder}, 'waiting')", [(number,) for number in range(jobs)])


def work(url: str, moments: str, kind: str) -> None:
    asyncio.run(drain(url, moments, kind))


async def drain(url: str, moments: str, kind: str) -> None:
    from longtake import Worker

    async with opened(url, [kind_named(kind, Moments(Path(moments)))]) as engine:
        await work_until_told(Worker(engine))
