"""Settling: outcomes become domain rows in the finishing transaction, as one list, each exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

from longtake import Database, Done, Fail, JobRequest, Outcome, Retry, Settlement, Snooze, Steps
from longtake.engine import outcomes
from longtake.engine.engine import Engine
from tests.engine.stage import KIND, Stage, add_effect, attempts, effects, ended, event_types, live, until_read

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from longtake import Job, Transaction


def write_effects(tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
    for one in settlements:
        add_effect(tx, one.job.id)


def count_live(tx: Transaction) -> int:
    return int(tx.execute(text("SELECT count(*) FROM jobs")).scalar_one())


async def test_settle_is_called_once_with_the_whole_batch(database: Database) -> None:
    stage = Stage(database)
    stage.settle = write_effects
    await stage.start()
    ids = [await stage.enqueue({"number": number}) for number in range(20)]
    # All 20 end at the same moment, so they are one batch.
    gate = stage.gate()

    async def wait(job: Job) -> Outcome:
        await gate.wait()
        return Done(data=job.args["number"] * 2)

    stage.handler = wait
    async with stage.working():
        await stage.until(lambda: len(stage.started) == 20)
        gate.set()
        await stage.until(lambda: len(stage.settled) == 20)
    assert stage.batches == [20]
    assert {(job, outcome.data) for job, outcome in stage.settled} == {(ids[n], n * 2) for n in range(20)}
    assert await database.read(effects) == sorted((job, 1) for job in ids)


async def test_every_outcome_is_settled(database: Database) -> None:
    stage = Stage(database, back_off=Steps([0]))
    await stage.start()
    outcomes: list[Outcome] = [Retry("A", "b", data=1), Snooze(0, data=2), Fail("C", "d", data=3)]
    stage.handler = stage.returning(*outcomes)
    job_id = await stage.enqueue()
    async with stage.working():
        await stage.until(lambda: len(stage.settled) == 3)
    assert stage.settled == [(job_id, outcome) for outcome in outcomes]


async def test_one_of_a_batch_that_cannot_be_settled_does_not_harm_the_others(database: Database) -> None:
    stage = Stage(database, max_attempts=1)
    await stage.start()
    ids = [await stage.enqueue() for _ in range(10)]
    bad = ids[4]
    gate = stage.gate()
    calls: list[list[str]] = []

    def settle(tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        calls.append([one.job.id for one in settlements])
        write_effects(tx, _engine, settlements)
        if any(one.job.id == bad and isinstance(one.outcome, Done) for one in settlements):
            raise LookupError("this one cannot be written")

    async def wait(_job: Job) -> Outcome:
        await gate.wait()
        return Done(then=[JobRequest(KIND, delay=3600)])

    stage.settle, stage.handler = settle, wait
    async with stage.working():
        await stage.until(lambda: len(stage.started) == 10)
        gate.set()
        await stage.until(lambda: len(stage.settled) == 10)
    assert len(calls[0]) == 10
    assert await database.read(effects) == sorted((job, 1) for job in ids)
    for job_id in ids:
        row = await database.read(ended, job_id)
        assert row.state == ("failed" if job_id == bad else "done")
        assert [one.outcome for one in await database.read(attempts, job_id)] == [row.state]
        assert await database.read(event_types, job_id) == [f"job.{row.state}"]
    assert (await database.read(ended, bad)).error == {
        "code": "SETTLE_FAILED",
        "message": "LookupError: this one cannot be written",
    }
    # The follow-ups of the nine, not of the one.
    assert await database.read(count_live) == 9


async def test_a_settle_that_recovers_is_tried_again_by_policy(database: Database) -> None:
    stage = Stage(database, max_attempts=5, back_off=Steps([0]))
    await stage.start()
    failures = iter(range(2))

    def settle(tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        for one in settlements:
            if isinstance(one.outcome, Done):
                if next(failures, None) is not None:
                    raise LookupError("not yet")
                add_effect(tx, one.job.id)

    stage.settle = settle
    job_id = await stage.enqueue()
    async with stage.working():
        await until_read(database, lambda tx: ended(tx, job_id), lambda row: row is not None)
    assert await database.read(effects) == [(job_id, 1)]
    timeline = [(one.attempt, one.outcome) for one in await database.read(attempts, job_id)]
    # Each failure is seen twice by settle: in the batch, and alone.
    assert timeline == [(1, "retry"), (2, "done")]


async def test_a_settle_that_never_takes_done_ends_as_failed_when_attempts_are_spent(database: Database) -> None:
    stage = Stage(database, max_attempts=3, back_off=Steps([0]))
    await stage.start()

    def settle(_tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        if any(isinstance(one.outcome, Done) for one in settlements):
            raise LookupError("never")

    stage.settle = settle
    job_id = await stage.enqueue()
    async with stage.working():
        await stage.until(lambda: any(isinstance(outcome, Fail) for _job, outcome in stage.settled))
    row = await database.read(ended, job_id)
    assert (row.state, row.error["code"]) == ("failed", "SETTLE_FAILED")
    assert [one.outcome for one in await database.read(attempts, job_id)] == ["retry", "retry", "failed"]
    assert len(stage.started) == 3


async def test_a_settle_that_takes_nothing_at_all_keeps_the_job_and_says_why(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The domain's hold is still open, so the job must not end: it waits, visibly, and is tried again."""
    monkeypatch.setattr(outcomes, "UNSETTLED_SECONDS", 3600.0)
    stage = Stage(database, max_attempts=1)
    await stage.start()
    broken = True

    def settle(tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
        if broken:
            raise LookupError("the domain is broken")
        write_effects(tx, _engine, settlements)

    stage.settle = settle
    job_id = await stage.enqueue()
    async with stage.working():
        row = await until_read(database, lambda tx: live(tx, job_id), lambda row: bool(row and row.error))
        assert (row.state, row.error["code"], row.lease_token) == ("ready", "SETTLE_FAILED", None)
        broken = False

        def make_due(tx: Transaction) -> None:
            tx.execute(text("UPDATE jobs SET due_at = longtake_now()"))

        await database.run(make_due)
        await stage.until(lambda: len(stage.settled) == 1)
    assert await database.read(effects) == [(job_id, 1)]
    assert (await database.read(ended, job_id)).state == "done"


async def test_a_follow_up_that_is_refused_is_told_like_a_settle_that_failed(database: Database) -> None:
    stage = Stage(database, max_attempts=1)
    stage.handler = stage.returning(Done(then=[JobRequest("nobody.knows")]))
    await stage.start()
    job_id = await stage.enqueue()
    async with stage.working():
        row = await until_read(database, lambda tx: ended(tx, job_id), lambda row: row is not None)
    assert row.error["code"] == "SETTLE_FAILED"
    assert "nobody.knows" in row.error["message"]
