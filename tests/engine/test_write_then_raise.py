"""A database that does the write and then says that it could not: every effect is there once all the same.

The plain case, a database that does not do the write and says so, is tried with the same jobs.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from sqlalchemy import select, text

from longtake import Database, Done, Engine, JobKind, JobRequest, Lane, Outcome, Retry, Settlement, Snooze, Steps
from longtake.db.errors import DatabaseUnavailable
from longtake.engine.tables import job_attempts, jobs, jobs_ended
from tests.engine.stage import Stage, add_effect, effects, make_effects, until_read
from tests.thoroughness import THOROUGH, tries

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from longtake import Enqueued, Job, Transaction
    from longtake.db.database import Call

R = TypeVar("R")

PARENTS = tries(100, 150)
LOST = 0.2


class ForgetfulDatabase(Database):
    """Fails every fifth write: after it is durable, or before it is begun."""

    def __init__(self, inner: Database, seed: int, *, after: bool = True) -> None:
        self.inner = inner
        self.dialect = inner.dialect
        self.signals = inner.signals
        self.incarnation = inner.incarnation
        self.lost = 0
        self._after = after
        self._random = random.Random(seed)

    async def _transact(self, call: Call[R]) -> R:
        self._maybe_fail(call, after=False)
        answer = await self.inner._transact(call)
        self._maybe_fail(call, after=True)
        return answer

    def _transact_blocking(self, call: Call[R]) -> R:
        self._maybe_fail(call, after=False)
        answer = self.inner._transact_blocking(call)
        self._maybe_fail(call, after=True)
        return answer

    def close(self) -> None:
        self.inner.close()

    def _maybe_fail(self, call: Call[Any], *, after: bool) -> None:
        if not call.read_only and after == self._after and self._random.random() < LOST:
            self.lost += 1
            raise DatabaseUnavailable("The answer was lost." if after else "Nothing was written.")


runs: list[str] = []


async def parent(job: Job) -> Outcome:
    """Fail once, wait once, then be done with a follow-up."""
    runs.append(job.id)
    if job.snoozes == 0 and job.attempt == 1:
        return Retry("NOT_YET", "the first attempt fails")
    if job.snoozes == 0:
        return Snooze(0, memo={"waited": True})
    assert job.memo == {"waited": True}
    return Done(then=[JobRequest("child", {"parent": job.id})])


async def child(job: Job) -> Outcome:
    runs.append(job.id)
    return Done()


def settle(tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
    numbers = {Retry: 1, Snooze: 2, Done: 3}
    for one in settlements:
        add_effect(tx, one.job.id, numbers[type(one.outcome)])


def live_jobs(tx: Transaction) -> int:
    return len(tx.execute(select(jobs.c.id)).all())


def history(tx: Transaction) -> tuple[list[Any], list[Any]]:
    return list(tx.execute(select(jobs_ended)).all()), list(tx.execute(select(job_attempts)).all())


async def retry_until_available(call: Callable[[], Any]) -> Any:
    """Do as a caller does who was told that it failed."""
    while True:
        try:
            return await call()
        except DatabaseUnavailable:
            continue


@pytest.mark.parametrize(("seed", "after"), [(1, True), (3, False), *([(2, True)] if THOROUGH else [])])
async def test_every_effect_is_there_once_and_nothing_is_lost_or_stuck(
    database: Database, seed: int, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("longtake.db.database", "longtake.engine.claimer"):
        monkeypatch.setattr(f"{module}.PAUSE_SECONDS", 0.01)
    await database.run(make_effects)
    forgetful = ForgetfulDatabase(database, seed, after=after)
    kinds = [
        JobKind("parent", parent, settle, back_off=Steps([0])),
        JobKind("child", child, settle, lane="narrow"),
    ]
    engine = Engine(forgetful, kinds, [Lane("narrow", max_running=8)])
    await retry_until_available(engine.start)

    def enqueue(tx: Transaction, number: int) -> Enqueued:
        return engine.enqueue(tx, "parent", key=f"parent {number}")

    stage = Stage(database)
    parents = [await retry_until_available(partial(forgetful.run, enqueue, number)) for number in range(PARENTS)]
    assert len({one.id for one in parents}) == PARENTS
    runs.clear()
    # Small batches make many exchanges; a short lease lets lost claims come back soon.
    lease = 1.0 if after else 30.0
    async with stage.working(engine, concurrency=12, lease_seconds=lease, heartbeat_seconds=0.1):
        await until_read(database, live_jobs, lambda count: count == 0)
    assert forgetful.lost > 20
    ended, attempts = await database.read(history)
    assert Counter((row.kind, row.state) for row in ended) == {("parent", "done"): PARENTS, ("child", "done"): PARENTS}
    assert {row.args["parent"] for row in ended if row.kind == "child"} == {one.id for one in parents}
    expected = [(row.id, number) for row in ended for number in ((1, 2, 3) if row.kind == "parent" else (3,))]
    assert await database.read(effects) == sorted(expected)
    if not after:
        # What could not be written is kept and written later: no handler has to run again for it.
        assert len(runs) == 4 * PARENTS
    # The unique constraint never had to step in, and each run that counted is remembered once.
    assert {row.error["code"] for row in attempts if row.error} == {"NOT_YET"}
    assert Counter(row.outcome for row in attempts) == {"retry": PARENTS, "done": 2 * PARENTS}


async def test_the_wrapper_does_write_and_does_raise(database: Database) -> None:
    """What the test above relies on."""
    await database.run(make_effects)
    forgetful = ForgetfulDatabase(database, 3)
    raised = 0
    for number in range(50):
        try:
            await forgetful.run(add_effect, "job", number)
        except DatabaseUnavailable:
            raised += 1
    assert 0 < raised == forgetful.lost < 50
    assert len(await database.read(effects)) == 50
    assert (await database.read(lambda tx: tx.execute(text("SELECT count(*) FROM jobs")).scalar_one())) == 0
