"""Forgetting old jobs and events: all that is old enough goes, whatever its id, and nothing else."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import func, insert, select

from longtake import Database, Done, Snooze, Transaction, Worker
from longtake.clock import new_id
from longtake.engine import prune
from longtake.engine.schedules import run_schedule
from longtake.engine.tables import events, job_attempts, jobs_ended
from longtake.server.application import Application
from longtake.settings import Settings
from tests.wait import until

if TYPE_CHECKING:
    from pathlib import Path

    from longtake import Engine

NOW = datetime.now(UTC)


def old_id(moment: datetime) -> str:
    """Return the id a job enqueued at that moment has."""
    return str(uuid.UUID(int=int(moment.timestamp() * 1000) << 80 | 7 << 76 | uuid.uuid4().int >> 66))


def remember(tx: Transaction, job_id: str, ended_at: datetime) -> None:
    shared = {
        "kind": "k",
        "lane": "default",
        "priority": 2,
        "attempt": 1,
        "max_attempts": 5,
        "crashes": 0,
        "snoozes": 0,
    }
    row = {"id": job_id, "state": "done", "args": {}, "created_at": ended_at, "ended_at": ended_at, **shared}
    tx.execute(insert(jobs_ended).values(**row))
    tx.execute(insert(job_attempts).values(job_id=job_id, attempt=1, outcome="done", ended_at=ended_at))


def left(tx: Transaction) -> dict[str, Any]:
    return {
        "jobs": set(tx.execute(select(jobs_ended.c.id).where(jobs_ended.c.kind == "k")).scalars()),
        "attempts": tx.execute(select(func.count()).where(job_attempts.c.attempt == 1)).scalar_one(),
        "events": list(tx.execute(select(events.c.type).where(events.c.type.like("t.%"))).scalars()),
    }


def prune_all(database: Database) -> int:
    """Walk to the end, page by page; return how many pages it took."""
    place: prune.Place | None = prune.Place()
    pages = 0
    while place is not None:
        place = database.run_blocking(prune.prune_page, place, 30, 7)
        pages += 1
        assert pages < 100
    return pages


def test_old_jobs_go_with_their_attempts_and_young_ones_stay(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune, "PAGE", 3)
    old, young = NOW - timedelta(days=31), NOW - timedelta(days=29)
    kept = {old_id(young), str(uuid.uuid4())}
    gone = [old_id(old) for _ in range(7)] + [str(uuid.uuid4()) for _ in range(7)]
    # Enqueued long ago, but ended only yesterday: it counts from its end.
    late = old_id(old)
    for job_id in kept:
        database.run_blocking(remember, job_id, young)
    for job_id in gone:
        database.run_blocking(remember, job_id, old)
    database.run_blocking(remember, late, NOW - timedelta(days=1))
    assert prune_all(database) > 5
    found = database.run_blocking(left)
    assert found["jobs"] == kept | {late}
    assert found["attempts"] == 3


def test_old_events_go_page_by_page(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune, "PAGE", 3)

    def write(tx: Transaction, name: str, days: int) -> None:
        tx.execute(insert(events).values(type=name, at=NOW - timedelta(days=days)))

    for number in range(8):
        database.run_blocking(write, f"t.old{number}", 8)
    database.run_blocking(write, "t.young", 6)
    prune_all(database)
    assert database.run_blocking(left)["events"] == ["t.young"]


async def test_a_long_walk_is_done_in_turns(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        database.run_blocking(remember, old_id(NOW - timedelta(days=31)), NOW - timedelta(days=31))
    monkeypatch.setattr(prune, "RUN_SECONDS", 0.0)
    monkeypatch.setattr(prune, "PAGE", 2)
    handler = prune.prune_kind(database, history_days=30, events_days=7).handler

    class Claimed:
        memo: Any = None

    job: Any = Claimed()
    turns = 1
    while isinstance(outcome := await handler(job), Snooze):
        assert (outcome.seconds, turns < 20) == (0, True)
        job.memo, turns = outcome.memo, turns + 1
    assert turns > 3, "one page in each turn"
    assert outcome == Done(data={"removed": 3})
    assert database.run_blocking(left)["attempts"] == 0


async def test_the_schedule_prunes_by_itself(database: Database, tmp_path: Path) -> None:
    application = Application(Settings(data_dir=tmp_path, history_days=30), database)
    engine: Engine = application.build()
    await engine.start()
    old = NOW - timedelta(days=31)
    database.run_blocking(remember, old_id(old), old)
    database.run_blocking(remember, new_id(), NOW)
    database.run_blocking(run_schedule, engine, "engine.prune")
    worker = Worker(engine, poll_seconds=0.05)
    running = asyncio.create_task(worker.run())
    try:
        await until(lambda: database.read(left), "one job is left", lambda found: len(found["jobs"]) <= 1)
    finally:
        worker.stop()
        await running
    assert database.run_blocking(left)["attempts"] >= 1
