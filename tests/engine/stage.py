"""A stage for engine tests: one kind of job whose handler each test writes, and a record of what came of it.

``Stage`` runs real workers. The plain functions below do the same by hand, a transaction each, for tests in which
time stands still.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import select, text

from longtake import Database, Done, Engine, JobKind, Outcome, Settlement, Transaction, Worker
from longtake.clock import new_id
from longtake.engine.kinds import Settle
from longtake.engine.leases import register_worker
from longtake.engine.outcomes import judge
from longtake.engine.queue import Claim, QueueName
from longtake.engine.tables import job_attempts, jobs, jobs_ended
from tests.wait import PATIENCE_SECONDS, until, wait_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from longtake import Enqueued, Job, Lane
    from longtake.engine.outcomes import Verdict

R = TypeVar("R")

NOT_YET_READABLE = """
SELECT EXISTS (
    SELECT FROM events
    WHERE transaction_id >= pg_snapshot_xmin(pg_current_snapshot())
      AND transaction_id < pg_snapshot_xmax(pg_current_snapshot())
)
"""
KIND = "sample"


async def wait_stubbornly(end: asyncio.Event) -> None:
    """Wait like a handler that does not react to being stopped: a worker stops it once, and only once."""
    try:
        await end.wait()
    except asyncio.CancelledError:
        # The end of a test that failed stops it a second time, and that is heard.
        await end.wait()


async def done(_job: Job) -> Outcome:
    return Done()


class Stage:
    """Keeps every job that was started and every settlement that was committed."""

    def __init__(self, database: Database, *, lanes: Sequence[Lane] = (), **policy: Any) -> None:
        self.database = database
        self.handler: Callable[[Job], Awaitable[Outcome]] = done
        self.settle: Settle = lambda _tx, _engine, _settlements: None
        self.started: list[Job] = []
        self.settled: list[tuple[str, Outcome]] = []
        self.batches: list[int] = []
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.kind = JobKind(KIND, self._handle, self._settle, **policy)
        self.engine = Engine(database, [self.kind], lanes)

    async def _handle(self, job: Job) -> Outcome:
        self.started.append(job)
        self.tell()
        return await self.handler(job)

    def _settle(self, tx: Transaction, engine: Engine, settlements: Sequence[Settlement]) -> None:
        self.settle(tx, engine, settlements)

        def committed() -> None:
            self.settled.extend((one.job.id, one.outcome) for one in settlements)
            self.batches.append(len(settlements))
            self._loop.call_soon_threadsafe(self.tell)

        tx.after_commit(committed)

    def gate(self) -> asyncio.Event:
        """Something for handlers to wait at."""
        return asyncio.Event()

    @staticmethod
    def returning(*outcomes: Outcome) -> Callable[[Job], Awaitable[Outcome]]:
        """Return a handler that ends in these ways, one after another."""
        remaining = iter(outcomes)

        async def handle(_job: Job) -> Outcome:
            return next(remaining)

        return handle

    def tell(self) -> None:
        """Let :meth:`until` look again."""
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that a handler, a settlement or the test itself tells of."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def start(self) -> None:
        await self.engine.start()
        await self.database.run(make_effects)

    async def enqueue(self, args: Any = None, **options: Any) -> str:
        def write(tx: Transaction) -> Enqueued:
            return self.engine.enqueue(tx, KIND, args, **options)

        return (await self.database.run(write)).id

    @asynccontextmanager
    async def working(self, engine: Engine | None = None, **options: Any) -> AsyncIterator[Worker]:
        """A real worker, stopped at the end."""
        worker = Worker(engine or self.engine, **({"poll_seconds": 0.05, "stop_grace_seconds": 10.0} | options))
        task = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop()
            await asyncio.wait_for(task, PATIENCE_SECONDS)


def build(database: Database, *kinds: JobKind, **options: Any) -> Engine:
    """Declare an engine with these kinds, or one sample kind, for tests that do by hand what workers do."""
    engine = Engine(database, kinds or [JobKind(KIND, done)], **options)
    database.run_blocking(engine.declare)
    database.run_blocking(make_effects)
    return engine


async def until_read(database: Database, function: Callable[[Transaction], R], wanted: Callable[[R], bool]) -> R:
    """Read again and again until the database says what is wanted."""
    found: R = await until(lambda: database.read(function), function.__name__, wanted)
    return found


def all_readable(tx: Transaction) -> bool:
    """Say whether every committed event may be read; what another server numbered is not waited for."""
    return tx.dialect == "sqlite" or not tx.sql(NOT_YET_READABLE)[0][0]


async def until_readable(database: Database) -> None:
    """Wait until whoever looks once finds all events: the server's own ANALYZE, in any database, holds them up."""
    await until_read(database, all_readable, bool)


def wait_until_readable(database: Database) -> None:
    """Do the same without an event loop."""
    wait_for(lambda: database.run_blocking(all_readable), "all events may be read")


def execute(tx: Transaction, statement: str) -> None:
    """Change something behind the engine's back."""
    tx.execute(text(statement))


def make_effects(tx: Transaction) -> None:
    """Make a table in which the same effect twice is an error."""
    tx.execute(text("CREATE TABLE IF NOT EXISTS effects (job_id text, number integer, PRIMARY KEY (job_id, number))"))


def add_effect(tx: Transaction, job_id: str, number: int = 1) -> None:
    tx.execute(text("INSERT INTO effects VALUES (:job, :number)"), {"job": job_id, "number": number})


def effects(tx: Transaction) -> list[tuple[str, int]]:
    rows = tx.execute(text("SELECT job_id, number FROM effects ORDER BY job_id, number"))
    return [(row.job_id, row.number) for row in rows]


def live(tx: Transaction, job_id: str) -> Any:
    """Return the whole row of a job that waits or runs, or None."""
    return tx.execute(select(jobs).where(jobs.c.id == job_id)).first()


def ended(tx: Transaction, job_id: str) -> Any:
    """Return the whole row of a job that has ended, or None."""
    return tx.execute(select(jobs_ended).where(jobs_ended.c.id == job_id)).first()


def attempts(tx: Transaction, job_id: str) -> list[Any]:
    """Return the job's timeline, oldest first."""
    rows = tx.execute(select(job_attempts).where(job_attempts.c.job_id == job_id)).all()
    return sorted(rows, key=lambda row: (row.ended_at, row.attempt))


def event_types(tx: Transaction, job_id: str) -> list[str]:
    rows = tx.execute(text("SELECT type FROM events WHERE subject = :job ORDER BY sequence"), {"job": job_id})
    return list(rows.scalars())


def hire(tx: Transaction, lease_seconds: float = 30.0, incarnation: str | None = None) -> str:
    """Register a worker and return its id."""
    worker = new_id()
    register_worker(tx, worker, "test", incarnation, lease_seconds)
    return worker


def enqueue(engine: Engine, kind: str = KIND, args: Any = None, **options: Any) -> str:
    """Enqueue one job in a transaction of its own and return its id."""

    def write(tx: Transaction) -> str:
        return engine.enqueue(tx, kind, args, **options).id

    return engine.database.run_blocking(write)


def claim(tx: Transaction, engine: Engine, worker: str, wanted: int = 100) -> list[Job]:
    """Claim from every queue of the engine's kinds that has no limits, by priority."""
    heads = [head.queue for head in engine.queue.heads(tx) if head.queue.kind in engine.kinds and not head.limited]
    queues = sorted(heads, key=lambda queue: queue.priority)
    return engine.exchange(tx, [], queues, worker, wanted, False).jobs


def claim_lane(tx: Transaction, engine: Engine, lane: str, worker: str, wanted: int = 100) -> list[Job]:
    """Claim from a limited lane as much as it permits now."""
    queues = [QueueName(lane, kind.name, kind.priority) for kind in engine.kinds.values()]
    return engine.claim_lane(tx, lane, queues, worker, wanted).jobs


async def run_permitted(engine: Engine, job: Job, lifetime: float) -> Verdict:
    """Run a claimed job as a worker does, with a permit for now that lives for so long."""
    worker, now = Worker(engine), engine.clock.monotonic()
    worker.executor.take(Claim([job], starts=[0.0], lifetime=lifetime, counted_from=now), now)
    [running] = worker.executor.all()
    assert running.task is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.wait([running.task])
    [verdict] = worker.completer.take()
    return verdict


def finish(tx: Transaction, engine: Engine, job: Job, outcome: Outcome, worker: str | None = None) -> bool:
    """Apply an outcome as a worker does; say whether the job was still ours."""
    kind = engine.kinds[job.kind]
    return job.id in engine.finish(tx, [judge(kind, job, outcome, worker or new_id(), random.Random(1))])
