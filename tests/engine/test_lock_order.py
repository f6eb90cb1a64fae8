"""Transactions of the engine that want the same rows wait for each other in one order, so that no two deadlock.

PostgreSQL ends one of two transactions that wait for each other, and the database runs it again: so errors are counted.
"""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from longtake import Done, Engine, Fail, JobKind, JobRequest, Schedule, Snooze, open_database
from longtake.engine.control import cancel_of_subjects, retry
from longtake.engine.outcomes import judge
from longtake.engine.schedules import fire_due, run_schedule
from longtake.engine.worker import Worker
from longtake.errors import StateConflict
from tests.crossing import ending, meet, waiting
from tests.engine.stage import KIND, add_effect, build, claim, done, effects, hire
from tests.wait import PATIENCE_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from longtake import Database, Enqueued, Job, Outcome, Settlement, Transaction
    from longtake.engine.outcomes import Verdict

LOCK = "SELECT FROM effects WHERE job_id = %s FOR UPDATE"
INSERT_KEY = "INSERT INTO jobs (kind, key, lane, priority, max_attempts) VALUES ('sample', %s, 'default', 2, 5)"


@pytest.fixture
def database(postgresql_url: str) -> Iterator[Database]:
    """SQLite has one writer at a time."""
    opened = open_database(postgresql_url)
    yield opened
    opened.close()


def verdict_of(engine: Engine, job: Job, outcome: Outcome) -> Verdict:
    return judge(engine.kinds[job.kind], job, outcome, job.lease_token, engine.random)


async def claimed(engine: Engine, requests: Sequence[JobRequest]) -> dict[str | None, Job]:
    """Enqueue and claim jobs; return them by key."""
    await engine.database.run(engine.enqueue_many, requests)
    worker = await engine.database.run(hire)
    return {job.key: job for job in await engine.database.run(claim, engine, worker)}


async def until_waiting(database: Database, number: int) -> None:
    await until(lambda: database.read(waiting), f"{number} transactions wait for a lock", lambda seen: seen >= number)


async def test_workers_that_settle_two_kinds_crosswise_do_not_wait_for_each_other(
    database: Database, deadlocks: list[BaseException]
) -> None:
    """Each holds what its first kind has written when it comes to the second, which wants what the other holds."""
    both_are_there = threading.Barrier(2, timeout=PATIENCE_SECONDS)
    met = set()

    def lock(tx: Transaction, _engine: Engine, settlements: Sequence[Settlement], *, second: bool) -> None:
        for one in settlements:
            if second and one.job.id not in met:
                met.add(one.job.id)
                both_are_there.wait()
            tx.sql(LOCK, (one.job.args["row"],))

    engine = build(
        database,
        JobKind("first", done, partial(lock, second=False)),
        JobKind("second", done, partial(lock, second=True)),
    )
    for row in ("left", "right"):
        await database.run(add_effect, row)
    crosswise = [("first", "left"), ("second", "right"), ("first", "right"), ("second", "left")]
    jobs = await claimed(engine, [JobRequest(kind, {"row": row}, key=f"{kind} {row}") for kind, row in crosswise])
    verdicts = [verdict_of(engine, jobs[f"{kind} {row}"], Done()) for kind, row in crosswise]
    workers = [Worker(engine), Worker(engine)]
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(
            workers[0].completer.exchange(verdicts[:2], (), 0), workers[1].completer.exchange(verdicts[2:], (), 0)
        )
    assert len(met) == 2
    assert deadlocks == []


async def test_one_kind_is_settled_in_each_transaction_and_all_of_it(database: Database) -> None:
    batches: list[list[str]] = []

    def note(tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        batches.append(sorted(one.job.kind for one in settlements))
        for one in settlements:
            add_effect(tx, one.job.id)

    engine = build(database, JobKind("a", done, note), JobKind("b", done, note), JobKind("plain", done))
    kinds = ["a", "plain", "b", "a", "b", "plain"]
    jobs = await claimed(engine, [JobRequest(kind, key=f"{kind} {place}") for place, kind in enumerate(kinds)])
    worker = Worker(engine)
    await worker.completer.exchange([verdict_of(engine, job, Done()) for job in jobs.values()], (), 0)
    assert sorted(batches) == [["a", "a"], ["b", "b"]]
    assert len(await database.read(effects)) == 4
    assert await database.read(lambda tx: tx.sql("SELECT count(*) FROM jobs")) == [(0,)]
    assert not worker.completer.waiting


@pytest.mark.parametrize("outcomes", [(Done(), Done()), (Snooze(60), Snooze(60)), (Done(), Snooze(60))])
async def test_jobs_that_end_together_are_locked_in_the_order_of_those_who_cancel_them(
    database: Database, postgresql_url: str, deadlocks: list[BaseException], outcomes: tuple[Outcome, Outcome]
) -> None:
    engine = build(database)
    # The second request has the key, and the row, that come first: its row is before the other's, its id is after.
    jobs = await claimed(engine, [JobRequest(KIND, key="b", subject="one"), JobRequest(KIND, key="a", subject="one")])
    assert jobs["b"].id < jobs["a"].id
    verdicts = [verdict_of(engine, jobs[key], outcome) for key, outcome in zip("ab", outcomes, strict=True)]
    with psycopg.connect(postgresql_url) as third:
        third.execute("SELECT FROM jobs WHERE key = 'a' FOR UPDATE")
        settling = asyncio.create_task(database.run(engine.finish, verdicts))
        await until_waiting(database, 1)
        cancelling = asyncio.create_task(database.run(cancel_of_subjects, ["one"], [KIND], "as asked"))
        await until_waiting(database, 2)
    await asyncio.gather(settling, cancelling)
    assert deadlocks == []


async def test_an_enqueue_does_not_wait_for_the_end_of_the_job_with_its_key(database: Database) -> None:
    """What ends it may wait for rows that the enqueueing transaction holds. It counts as live until it has ended."""
    engine = build(database, JobKind(KIND, done, lambda _tx, _engine, _settlements: None))
    [job] = (await claimed(engine, [JobRequest(KIND, key="film 7")])).values()

    def put(tx: Transaction) -> Enqueued:
        return engine.enqueue(tx, KIND, key="film 7")

    async with asyncio.timeout(PATIENCE_SECONDS):
        _ended, twin = await meet(database, ending(engine, job, Done()), lambda: database.run(put))
    assert (twin.id, twin.created) == (job.id, False)


async def test_two_who_enqueue_the_same_keys_wait_in_one_order(
    database: Database, postgresql_url: str, deadlocks: list[BaseException]
) -> None:
    engine = build(database)

    def put(tx: Transaction, keys: str) -> list[Enqueued]:
        return engine.enqueue_many(tx, [JobRequest(KIND, key=key) for key in keys])

    with psycopg.connect(postgresql_url) as third:
        third.execute(INSERT_KEY, ("b",))
        forward = asyncio.create_task(database.run(put, "abc"))
        await until_waiting(database, 1)
        backward = asyncio.create_task(database.run(put, "cba"))
        await until_waiting(database, 2)
        third.rollback()
    one, other = await asyncio.gather(forward, backward)
    assert {job.id for job in one} == {job.id for job in other}
    assert deadlocks == []


async def test_a_schedule_run_by_hand_while_it_fires_makes_one_job(
    database: Database, deadlocks: list[BaseException]
) -> None:
    engine = build(database, JobKind(KIND, done), schedules=[Schedule("often", KIND, every=1.0)])
    await database.run(lambda tx: tx.sql("UPDATE schedules SET next_at = longtake_now() - interval '1 minute'"))

    async def by_hand(stand_still: Callable[[], None]) -> Any:
        def run(tx: Transaction) -> str:
            # Between the job and the schedule's row.
            enqueue = engine.enqueue

            def enqueue_and_stand_still(*arguments: Any, **named: Any) -> Enqueued:
                job = enqueue(*arguments, **named)
                stand_still()
                return job

            engine.enqueue = enqueue_and_stand_still  # type: ignore[method-assign]
            try:
                return run_schedule(tx, engine, "often").id
            finally:
                engine.enqueue = enqueue  # type: ignore[method-assign]

        return await database.run(run)

    await meet(database, by_hand, lambda: database.run(fire_due, engine))
    assert await database.read(lambda tx: tx.sql("SELECT count(*) FROM jobs")) == [(1,)]
    assert deadlocks == []


async def test_a_retry_by_hand_beside_an_enqueue_of_the_same_key_is_refused(
    database: Database, deadlocks: list[BaseException]
) -> None:
    """The job that it meets is not visible when the retry begins."""
    engine = build(database, JobKind(KIND, done, max_attempts=1))
    job = (await claimed(engine, [JobRequest(KIND, key="a")]))["a"]
    await database.run(engine.finish, [verdict_of(engine, job, Fail("BROKEN", "for good"))])

    async def enqueue(stand_still: Callable[[], None]) -> Enqueued:
        def write(tx: Transaction) -> Enqueued:
            new = engine.enqueue(tx, KIND, key="a")
            stand_still()
            return new

        return await database.run(write)

    async def retry_it() -> StateConflict:
        with pytest.raises(StateConflict) as refused:
            await database.run(retry, job.id)
        return refused.value

    twin, refused = await meet(database, enqueue, retry_it)
    assert refused.message == f"The job {job.id} cannot be retried: {twin.id} is live and has the same key 'a'."
    assert deadlocks == []
