"""How many statements an enqueue and a settling take: what speed rests on, and no clock is needed to see it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from longtake import Cancelled, Done, Fail, Retry, Snooze
from longtake.engine.jobs import JobRequest
from longtake.engine.outcomes import judge
from tests.engine.stage import KIND, Stage, claim, hire
from tests.statements import statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake import Database, Outcome

#: BEGIN and COMMIT are round trips to PostgreSQL. On SQLite a group of writes shares them, and they are not counted.
AROUND = {"sqlite": 0, "postgresql": 2}
MANY = 20


async def settled(database: Database, outcomes: Sequence[Outcome]) -> int:
    """Settle a batch in one transaction; return how many statements that took."""
    stage = Stage(database)
    await stage.start()
    await database.run(stage.engine.enqueue_many, [JobRequest(KIND)] * len(outcomes))
    worker = await database.run(hire)
    jobs = await database.run(claim, stage.engine, worker)
    verdicts = [
        judge(stage.kind, job, outcome, worker, random.Random(1)) for job, outcome in zip(jobs, outcomes, strict=True)
    ]
    with statements(database) as sent:
        held = await database.run(stage.engine.finish, verdicts)
    assert len(held) == len(outcomes)
    return len(sent)


@pytest.mark.parametrize("number", [1, MANY])
async def test_an_enqueue_is_one_statement_for_any_number_of_jobs(database: Database, number: int) -> None:
    stage = Stage(database)
    await stage.start()
    with statements(database) as sent:
        await database.run(stage.engine.enqueue_many, [JobRequest(KIND)] * number)
    assert len(sent) == AROUND[database.dialect] + 1


@pytest.mark.parametrize("number", [1, MANY])
@pytest.mark.parametrize(
    ("outcome", "on_sqlite"),
    [(Done(), 5), (Fail("BROKEN", "as asked"), 5), (Cancelled(), 5), (Retry("AGAIN", "as asked"), 4), (Snooze(1.0), 2)],
    ids=["done", "fail", "cancelled", "retry", "snooze"],
)
async def test_a_batch_is_settled_by_as_many_statements_as_one_job(
    database: Database, outcome: Outcome, on_sqlite: int, number: int
) -> None:
    """One on PostgreSQL; on SQLite, which takes one change of one table at a time, one for each table."""
    wanted = on_sqlite if database.dialect == "sqlite" else AROUND["postgresql"] + 1
    assert await settled(database, [outcome] * number) == wanted


async def test_a_batch_of_all_outcomes_needs_a_statement_for_each_way_to_go_on(database: Database) -> None:
    mixed: list[Outcome] = [Done(), Fail("BROKEN", "as asked"), Retry("AGAIN", "as asked"), Snooze(1.0)] * 5
    wanted = {"sqlite": 9, "postgresql": AROUND["postgresql"] + 2}
    assert await settled(database, mixed) == wanted[database.dialect]
