"""Ends that meet: a sweep or a cancel, and a submit that is accepted in the same moment."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from longtake.capabilities.generation.deadlines import end_overdue
from longtake.capabilities.generation.tasks import cancel_task
from longtake.engine.control import retry
from tests.engine.stage import finish
from tests.generation.studio import CREDITS, USER
from tests.generation.test_life_of_a_task import everything_adds_up
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtake import Job, Outcome, Transaction
    from tests.generation.studio import Studio

#: Enough for a transaction to get as far as the other lets it; one that is done sooner does not wait.
HALF_WAY_SECONDS = 0.5


async def answered_submit(studio: Studio, prompt: str) -> tuple[str, Job, Outcome]:
    """Return a task whose provider has accepted it, and what its worker is about to write."""
    task_id = await studio.submit(prompt)
    [job] = [job for job in await studio.claim() if job.kind == "generation.submit"]
    return task_id, job, await studio.engine.kinds[job.kind].handler(job)


async def meet(studio: Studio, job: Job, outcome: Outcome, other: Callable[..., Any], *arguments: Any) -> None:
    """Begin to write the outcome, let the other do what it can meanwhile, then commit."""
    written, go_on = threading.Event(), threading.Event()

    def write_slowly(tx: Transaction) -> None:
        assert finish(tx, studio.engine, job, outcome, studio.worker)
        written.set()
        assert go_on.wait(PATIENCE_SECONDS)

    writing = asyncio.create_task(studio.database.run(write_slowly))
    try:
        assert await asyncio.to_thread(written.wait, 20)
        meanwhile = asyncio.create_task(studio.database.run(other, *arguments))
        await asyncio.wait([meanwhile], timeout=HALF_WAY_SECONDS)
    finally:
        go_on.set()
    await writing
    await meanwhile


async def test_a_sweep_does_not_end_a_task_that_is_accepted_in_the_same_moment(studio: Studio) -> None:
    task_id, job, outcome = await answered_submit(studio, "a fox at the last moment [never]")
    # So late that even a submit under way would no longer be waited for.
    studio.clock.advance(studio.settings.queue_seconds + 130)
    await meet(studio, job, outcome, end_overdue)
    assert (await studio.task(task_id)).status == "running"
    assert "generation.poll" in await studio.jobs()
    await everything_adds_up(studio)


async def test_a_task_cancelled_while_it_is_accepted_is_soon_no_longer_followed(studio: Studio) -> None:
    task_id, job, outcome = await answered_submit(studio, "a fox that is not wanted [never]")
    await meet(studio, job, outcome, cancel_task, USER, task_id)
    assert (await studio.task(task_id)).status == "cancelled"
    studio.clock.advance(40)
    await studio.step()
    assert "generation.poll" not in await studio.jobs()
    assert await studio.balance() == (CREDITS, 0)
    await everything_adds_up(studio)


@pytest.mark.parametrize("fault", [None, 503])
async def test_a_poll_that_is_retried_after_its_task_has_ended_asks_once_and_ends(
    studio: Studio, fault: int | None
) -> None:
    task_id = await studio.submit("a fox that never comes [never]")
    await studio.step()
    await studio.generation.cancel(USER, task_id)
    before = await studio.task(task_id)
    [(poll,)] = await studio.sql("SELECT id FROM jobs_ended WHERE kind = 'generation.poll'")
    await studio.database.run(retry, str(poll))
    if fault is not None:
        studio.sandbox.faults("status", status=fault, route="query")
    await studio.step()
    assert len(studio.sandbox.calls(route="query")) == 1
    assert "generation.poll" not in await studio.jobs()
    assert await studio.task(task_id) == before


async def test_a_submit_that_is_retried_after_its_task_has_ended_sends_nothing(studio: Studio) -> None:
    task_id = await studio.submit()
    await studio.generation.cancel(USER, task_id)
    [(submit,)] = await studio.sql("SELECT id FROM jobs_ended WHERE kind = 'generation.submit'")
    await studio.database.run(retry, str(submit))
    await studio.step()
    assert studio.sandbox.calls(route="submit") == []
    assert await studio.facts(task_id) == []


async def test_watching_does_not_shorten_the_wait_after_a_not_found(studio: Studio) -> None:
    task_id = await studio.submit("a fox on a slow copy [never]")
    await studio.step()
    studio.sandbox.faults("status", status=404, code=404, route="query", times=2)
    studio.clock.advance(40)
    await studio.step()
    assert len(studio.sandbox.calls(route="query")) == 1
    studio.watch.touch(task_id, "image")
    studio.clock.advance(3)
    await studio.watch.round()
    await studio.step()
    assert (await studio.task(task_id)).status == "running"
    assert len(studio.sandbox.calls(route="query")) == 1
    studio.clock.advance(3)
    await studio.step()
    assert (await studio.task(task_id)).fail_code == "TASK_NOT_FOUND"


async def test_many_who_ask_for_the_models_at_once_all_get_them(studio: Studio) -> None:
    answers = await asyncio.gather(*[studio.generation.models() for _ in range(3)])
    assert [len(one) for one in answers] == [len(studio.generation.offered.models)] * 3
