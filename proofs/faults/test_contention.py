"""Transactions that stand in each other's way: F25, F26."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from longtake import Database, Done, Engine, JobKind, Worker
from longtake.db.errors import DatabaseBusy
from longtake.db.postgresql import LONGEST_PAUSE_SECONDS, PATIENCE_SECONDS, PostgresqlDatabase
from longtake.db.postgresql_session import SessionOptions
from tests.wait import PATIENCE_SECONDS as PATIENCE
from tests.wait import until, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from longtake import Job, Settlement, Transaction
    from proofs.faults.lab import Lab

COLLIDE = "DO $$ BEGIN RAISE EXCEPTION 'lost against another' USING ERRCODE = '40001'; END $$"
THREADS = 3
WAITING = 4


@pytest.fixture
def small_pool(postgresql_lab: Lab) -> Iterator[Database]:
    """Few threads, and few that may wait for one."""
    database = PostgresqlDatabase(SessionOptions(postgresql_lab.url), threads=THREADS, waiting_limit=WAITING)
    yield database
    database.close()


async def test_deadlocked_transactions_are_both_carried_out(small_pool: Database, postgresql_lab: Lab) -> None:
    """F25: deadlocks and serialization failures."""
    lab = postgresql_lab
    lab.sql("INSERT INTO effects (job_id, attempt) VALUES ('left', 0), ('right', 0)")
    both_hold_one = threading.Barrier(2, timeout=PATIENCE)
    met: set[str] = set()
    calls = 0

    def lock_both(tx: Transaction, first: str, second: str) -> None:
        nonlocal calls
        calls += 1
        change = "UPDATE effects SET attempt = attempt + 1 WHERE job_id = %s"
        tx.sql(change, (first,))
        if first not in met:
            met.add(first)
            both_hold_one.wait()
        tx.sql(change, (second,))

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(small_pool.run(lock_both, "left", "right"), small_pool.run(lock_both, "right", "left"))
    assert calls > 2, "there was no deadlock"
    assert lab.sql("SELECT attempt FROM effects") == [(2,), (2,)]


async def test_a_transaction_that_always_loses_ends_in_bounded_time(
    small_pool: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F25: Its patience is counted by the pauses alone, so that the number of tries says when it gives up."""
    pauses: list[float] = []
    monkeypatch.setattr(
        "longtake.db.postgresql.time", SimpleNamespace(monotonic=lambda: sum(pauses), sleep=pauses.append)
    )
    calls = 0

    def collide(tx: Transaction) -> None:
        nonlocal calls
        calls += 1
        tx.sql(COLLIDE)

    with pytest.raises(DatabaseBusy, match="in every try"):
        await small_pool.run(collide)
    assert PATIENCE_SECONDS - LONGEST_PAUSE_SECONDS < sum(pauses) <= PATIENCE_SECONDS
    assert len(pauses) == calls - 1
    assert 13 <= calls <= 20


async def test_a_settlement_that_collides_is_repeated_and_takes_effect_once(
    small_pool: Database, postgresql_lab: Lab
) -> None:
    """F25: deadlocks and serialization failures."""
    calls = 0

    def settle(tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        nonlocal calls
        calls += 1
        for one in settlements:
            tx.sql("INSERT INTO effects (job_id) VALUES (%s)", (one.job.id,))
        if calls < 4:
            tx.sql(COLLIDE)

    engine = Engine(small_pool, [JobKind("task", _done, settle)])
    await engine.start()
    worker = Worker(engine, poll_seconds=0.1)
    working = asyncio.create_task(worker.run())
    ids = postgresql_lab.enqueue(3)
    await until(lambda: small_pool.read(_count, "jobs"), "all jobs have ended", lambda left: left == 0)
    worker.stop()
    await working
    assert calls >= 4
    assert sorted(row[0] for row in postgresql_lab.sql("SELECT job_id FROM effects")) == sorted(ids)
    assert {tuple(postgresql_lab.attempts(job)) for job in ids} == {("done",)}


async def test_with_an_exhausted_pool_calls_are_refused_and_heartbeats_continue(
    small_pool: Database, postgresql_lab: Lab
) -> None:
    """F26: the connection pool is exhausted."""
    lab = postgresql_lab
    engine = Engine(small_pool, [JobKind("task", _done)])
    await engine.start()
    worker = Worker(engine, lease_seconds=1.5, heartbeat_seconds=0.3, poll_seconds=60.0)
    working = asyncio.create_task(worker.run())
    beats = "SELECT beat FROM workers WHERE id = ?"
    await asyncio.to_thread(wait_for, lambda: lab.sql(beats, (worker.id,)), "the worker is registered")
    over = threading.Event()
    try:
        calls = [asyncio.create_task(small_pool.run(_hold, over)) for _ in range(20 * (THREADS + WAITING))]
        # Not one of those that hold a thread has ended, so that no call can have waited for it before it was refused.
        shed = await until(
            lambda: [call for call in calls if call.done()],
            "all but a few are refused",
            lambda ended: len(calls) - len(ended) <= THREADS + WAITING,
        )
        assert not over.is_set()
        assert {type(call.exception()) for call in shed} == {DatabaseBusy}

        # Another worker looks on for longer than a lease, and sees it alive.
        other = await asyncio.to_thread(lab.start)
        [(before,)] = lab.sql(beats, (worker.id,))
        enough = lambda: lab.sql(beats, (worker.id,))[0][0] >= before + 7  # noqa: E731
        await asyncio.to_thread(wait_for, enough, "it beats on")
        assert other.alive
    finally:
        over.set()
    kept = await asyncio.gather(*(call for call in calls if call not in shed))
    assert kept == ["done"] * len(kept)
    assert 0 < len(kept) <= THREADS + WAITING
    worker.stop()
    await working


def _hold(tx: Transaction, over: threading.Event) -> str:
    """Be a long transaction."""
    tx.sql("SELECT 1")
    assert over.wait(PATIENCE)
    return "done"


async def _done(_job: Job) -> Done:
    return Done()


def _count(tx: Transaction, table: str) -> Any:
    return tx.sql(f"SELECT count(*) FROM {table}")[0][0]
