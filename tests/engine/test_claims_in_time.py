"""What is due is claimed in time, whatever else is under way."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from longtake import Database, Done, Engine, JobKind, Lane, Snooze
from tests.engine.stage import KIND, Stage
from tests.wait import PATIENCE_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake import Job, Outcome, Settlement, Transaction
    from longtake.engine.queue import Claim

#: Polls so far apart that none would help.
FAR = 60.0


async def test_a_job_put_back_by_a_slow_commit_is_found_though_others_claimed_meanwhile(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(database)
    await stage.start()
    settling, go_on = threading.Event(), threading.Event()
    stage.handler = stage.returning(Snooze(0.05), Done())

    def settle(_tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        if isinstance(settlements[0].outcome, Snooze):
            settling.set()
            assert go_on.wait(PATIENCE_SECONDS)

    stage.settle = settle
    await stage.enqueue()
    async with stage.working(poll_seconds=FAR) as worker:
        try:
            await until(settling.is_set)
            claims: list[Claim] = []
            end_claim = worker.timer.end_claim

            def noted(claim: Claim, wanted: int) -> None:
                end_claim(claim, wanted)
                claims.append(claim)

            monkeypatch.setattr(worker.timer, "end_claim", noted)
            worker.timer.wake()
            # SQLite has one writer: there the claim comes after the commit.
            await until(lambda: bool(claims) if database.dialect != "sqlite" else worker.claimer.reserved > 0)
        finally:
            go_on.set()
        await stage.until(lambda: len(stage.started) == 2)
    assert [type(outcome) for _job, outcome in stage.settled] == [Snooze, Done]


async def test_room_that_a_full_lane_did_not_need_is_there_for_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the lane is asked all room is spoken for, and pumps whose time comes then find none."""
    stage = Stage(database, lane="narrow")
    held, plain = asyncio.Event(), asyncio.Event()

    async def hold(_job: Job) -> Outcome:
        await held.wait()
        return Done()

    async def begin(_job: Job) -> Outcome:
        plain.set()
        return Done()

    stage.handler = hold
    stage.engine = engine = Engine(database, [stage.kind, JobKind("plain", begin)], [Lane("narrow", max_running=1)])
    await stage.start()
    asked, go_on = threading.Event(), threading.Event()
    claim_lane = engine.claim_lane

    def claim_slowly(*arguments: Any) -> Claim:
        asked.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return claim_lane(*arguments)

    def enqueue_both(tx: Transaction) -> None:
        engine.enqueue(tx, KIND)
        engine.enqueue(tx, "plain", delay=1.0)

    await stage.enqueue()
    async with stage.working(concurrency=10, poll_seconds=0.2) as worker:
        try:
            await stage.until(lambda: len(stage.started) == 1)
            monkeypatch.setattr(engine, "claim_lane", claim_slowly)
            await database.run(enqueue_both)
            await until(asked.is_set)
            await until(lambda: worker.claimer.room() == 0 and engine.clock.monotonic() > worker.timer._claim_at + 0.1)
            go_on.set()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await plain.wait()
            assert len(stage.started) == 1, "the lane was full all the time"
        finally:
            go_on.set()
            held.set()
