"""How many statements one image takes, step by step: what speed rests on, and no clock is needed to see it.

On PostgreSQL each is a round trip, and BEGIN and COMMIT are counted; on SQLite they are not.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from longtake.engine.outcomes import judge
from tests.statements import statements

if TYPE_CHECKING:
    from longtake import Job, Outcome
    from tests.generation.studio import Studio


def counted(studio: Studio, sent: list[str], *, sqlite: int, postgresql: int) -> None:
    wanted = sqlite if studio.database.dialect == "sqlite" else postgresql
    assert len(sent) == wanted, "\n".join(" ".join(one.split())[:150] for one in sent)


async def handled(studio: Studio, jobs: list[Job]) -> list[Outcome]:
    return [await studio.engine.kinds[job.kind].handler(job) for job in jobs]


async def settle(studio: Studio, jobs: list[Job], outcomes: list[Outcome]) -> None:
    """Let the outcomes take effect in one transaction, as a worker does."""
    verdicts = [
        judge(studio.engine.kinds[job.kind], job, outcome, studio.worker, random.Random(1))
        for job, outcome in zip(jobs, outcomes, strict=True)
    ]
    assert len(await studio.database.run(studio.engine.finish, verdicts)) == len(jobs)


async def polls(studio: Studio, number: int) -> list[Job]:
    """Submit so many images; return their first polls, claimed."""
    for one in range(number):
        await studio.submit(f"a fox, number {one}")
    await studio.step()
    studio.clock.advance(120)  # the first polls are spread
    jobs = await studio.claim()
    assert [job.kind for job in jobs] == ["generation.poll"] * number
    return jobs


async def test_a_submit(studio: Studio) -> None:
    await studio.submit()
    with statements(studio.database) as sent:
        await studio.submit()
    counted(studio, sent, sqlite=10, postgresql=7)


async def test_a_submit_with_an_idempotency_key(studio: Studio) -> None:
    """The answer of a key is looked for and kept; on PostgreSQL others with the same key are locked out meanwhile."""
    await studio.submit(key="first")
    with statements(studio.database) as sent:
        await studio.submit(key="second")
    counted(studio, sent, sqlite=12, postgresql=10)


@pytest.mark.parametrize("number", [1, 10])
async def test_a_poll_that_finds_the_image_unfinished(studio: Studio, number: int) -> None:
    studio.sandbox.settings(seconds={"image": 600})
    try:
        jobs = await polls(studio, number)
        with statements(studio.database) as sent:
            outcomes = await handled(studio, jobs)
        counted(studio, sent, sqlite=0, postgresql=0)
        with statements(studio.database) as sent:
            await settle(studio, jobs, outcomes)
        counted(studio, sent, sqlite=3, postgresql=4)
    finally:
        studio.sandbox.settings(seconds={"image": 0})


@pytest.mark.parametrize(("number", "on_sqlite", "on_postgresql"), [(1, 15, 9), (10, 78, 37)])
async def test_a_poll_that_finds_the_image_done(
    studio: Studio, number: int, on_sqlite: int, on_postgresql: int
) -> None:
    """Each task more costs three: its end, its file and its event; on SQLite four more, for its credits.

    On PostgreSQL several holds are locked in order first, by one statement.
    """
    jobs = await polls(studio, number)
    with statements(studio.database) as sent:
        outcomes = await handled(studio, jobs)
    counted(studio, sent, sqlite=0, postgresql=0)
    with statements(studio.database) as sent:
        await settle(studio, jobs, outcomes)
    counted(studio, sent, sqlite=on_sqlite, postgresql=on_postgresql)
