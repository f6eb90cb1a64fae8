"""Last writes that fail while the worker lives: F29."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import insert

from longtake import Done, Engine, JobKind, JobRequest, Worker
from longtake.db.errors import DatabaseUnavailable
from proofs.faults.child_worker import effects
from tests.wait import until, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from longtake import Database, Job, Settlement, Transaction
    from proofs.faults.lab import Lab


def test_a_failed_last_write_is_repeated_until_it_holds(lab: Lab) -> None:
    """F29: the last write of a job fails."""
    child = lab.start(
        constants=(("longtake.db.sqlite_connection", "BUSY_SECONDS", 0.1),), session=_impatient(lab), lease_seconds=30.0
    )
    ids = lab.enqueue(5, until="go")
    lab.wait_for("start", count=5)
    log = lab.folder / f"log-{child.id}"
    with _effects_locked(lab):
        lab.let("go")
        lab.wait_for("end", count=5)
        wait_for(lambda: log.read_text().count("database trouble, trying again") >= 2, "it fails twice")
        assert lab.live() == 5
    lab.drained()
    lab.check(ids)
    assert {tuple(lab.attempts(job)) for job in ids} == {("done",)}
    assert {len(lab.evidence("start", job=job)) for job in ids} == {1}


def _impatient(lab: Lab) -> tuple[tuple[str, float], ...]:
    return () if lab.is_sqlite else (("lock_seconds", 0.1),)


@contextmanager
def _effects_locked(lab: Lab) -> Iterator[None]:
    """Be another program that keeps the table to itself."""
    if lab.is_sqlite:
        connection = sqlite3.connect(lab.url.removeprefix("sqlite:///"), timeout=10.0, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")
            connection.close()
        return
    with psycopg.connect(lab.url) as server:
        server.execute("LOCK TABLE effects IN ACCESS EXCLUSIVE MODE")
        yield


@pytest.mark.parametrize("written", [False, True], ids=["before the write", "after the write"])
async def test_a_write_that_times_out_takes_effect_once(
    database: Database, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    """F29: The store does the write and then raises a time-out, or raises it without having written."""
    monkeypatch.setattr("longtake.engine.claimer.PAUSE_SECONDS", 0.05)
    engine = Engine(database, [JobKind("task", _done, _write_effects)])
    await engine.start()
    # Without a key: a second effect would be a second row.
    await database.run(_sql, "CREATE TABLE effects (job_id text, attempt integer, process integer)")
    await database.run(engine.enqueue_many, [JobRequest("task")] * 5)
    run = database.run
    failures = 0

    async def unreliable(function: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal failures
        if function != engine.exchange or not arguments[0] or failures == 3:
            return await run(function, *arguments, **options)
        failures += 1
        if written:
            await run(function, *arguments, **options)
        raise DatabaseUnavailable("No answer within the time limit.")

    monkeypatch.setattr(database, "run", unreliable)
    worker = Worker(engine, lease_seconds=1.0, heartbeat_seconds=0.2, poll_seconds=0.1)
    working = asyncio.create_task(worker.run())
    await until(lambda: database.read(_sql, "SELECT id FROM jobs"), "all jobs have ended", lambda left: not left)
    worker.stop()
    await working
    assert failures == 3
    assert await database.read(_sql, "SELECT count(job_id), count(DISTINCT job_id) FROM effects") == [(5, 5)]
    assert await database.read(_sql, "SELECT DISTINCT state FROM jobs_ended") == [("done",)]


async def _done(_job: Job) -> Done:
    return Done()


def _write_effects(tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
    tx.execute(insert(effects), [{"job_id": one.job.id} for one in settlements])


def _sql(tx: Transaction, statement: str) -> list[tuple[Any, ...]]:
    return tx.sql(statement)
