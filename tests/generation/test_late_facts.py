"""What was paid for is not lost: answers that come late, or to workers that are no longer asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from longtake.capabilities.generation.submissions import record_accepted
from longtake.capabilities.generation.tasks import cancel_task
from longtake.db.errors import DatabaseUnavailable
from tests.engine.stage import until_read
from tests.generation.studio import CREDITS, USER
from tests.generation.test_callbacks import call_back, lost_submit
from tests.generation.test_life_of_a_task import everything_adds_up
from tests.generation.test_provider_trouble import give_back
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtake import Job, Transaction
    from tests.generation.studio import Studio


def acceptances(tx: Transaction) -> int:
    return int(tx.execute(text("SELECT count(*) FROM submissions WHERE fact = 'accepted'")).scalar_one())


async def claimed_submit(studio: Studio) -> Job:
    [job] = [job for job in await studio.claim() if job.kind == "generation.submit"]
    return job


@pytest.mark.parametrize("looks", [1, 2])
async def test_an_answer_after_the_task_was_given_up_is_used(
    studio: Studio, monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    """F6: frozen for longer than the lease."""
    task_id = await studio.submit("a fox of a worker that stood still")
    job = await claimed_submit(studio)
    provider = studio.context.providers["kie"]
    submit: Callable[[Any], Any] = provider.submit

    async def answer_late(request: Any) -> Any:
        answer = await submit(request)
        await give_back(studio, job.id)
        for _ in range(looks):
            await studio.step()
        assert (await studio.task(task_id)).needs_review
        return answer

    monkeypatch.setattr(provider, "submit", answer_late)
    assert not await studio.run(job)
    studio.clock.advance(90)
    await studio.step()
    assert (await studio.follow(task_id)).status == "completed"
    assert ("SUBMIT_UNKNOWN", "resolved") in await studio.alerts()
    assert len(studio.sandbox.calls(route="submit")) == 1
    await everything_adds_up(studio)


async def test_an_acceptance_is_written_though_its_handler_was_stopped(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = await studio.submit()
    job = await claimed_submit(studio)
    run, away, tried = studio.database.run, asyncio.Event(), asyncio.Event()

    async def fail_while_away(function: Any, *arguments: Any) -> Any:
        if function is record_accepted and not away.is_set():
            tried.set()
            raise DatabaseUnavailable("The database is away.")
        return await run(function, *arguments)

    monkeypatch.setattr("longtake.db.database.PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(studio.database, "run", fail_while_away)
    handler = asyncio.ensure_future(studio.engine.kinds[job.kind].handler(job))
    await asyncio.wait_for(tried.wait(), PATIENCE_SECONDS)
    handler.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handler
    away.set()
    await until_read(studio.database, acceptances, lambda count: count == 1)
    await give_back(studio, job.id)
    assert (await studio.follow(task_id)).status == "completed"
    assert len(studio.sandbox.calls(route="submit")) == 1


async def test_a_database_that_is_away_when_references_are_read_does_not_fail_the_task(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitting: Any = studio.engine.kinds["generation.submit"].handler
    load = submitting.__self__._load_references

    async def away(*_arguments: Any) -> Any:
        raise DatabaseUnavailable("The database is away.")

    task_id = await studio.submit()
    monkeypatch.setattr(submitting.__self__, "_load_references", away)
    await studio.step()
    task = await studio.task(task_id)
    assert (task.status, task.needs_review) == ("pending", False)
    monkeypatch.setattr(submitting.__self__, "_load_references", load)
    studio.clock.advance(10)
    assert (await studio.follow(task_id)).status == "completed"


async def test_a_lost_task_is_found_again_though_its_model_is_no_longer_offered(studio: Studio) -> None:
    task_id, remote = await lost_submit(studio, "a fox of an old model")
    before = (await studio.task(task_id)).deadline_at
    del studio.generation.offered.models["nano-banana"]
    await call_back(studio, task_id, remote)
    await studio.step()
    task = await studio.task(task_id)
    assert (task.status, task.deadline_at) == ("running", before)
    assert (await studio.follow(task_id)).status == "completed"
    assert await studio.balance() == (CREDITS - 4, 0)


async def test_a_submit_that_is_too_late_for_its_permit_has_written_nothing(studio: Studio) -> None:
    """What it read was for nothing; the next run begins as if this one had not been."""

    async def too_late() -> None:
        raise asyncio.CancelledError

    task_id = await studio.submit()
    job = await claimed_submit(studio)
    job.permit_waiter = too_late
    with pytest.raises(asyncio.CancelledError):
        await studio.engine.kinds[job.kind].handler(job)
    assert await studio.facts(task_id) == []
    assert studio.sandbox.calls(route="submit") == []


async def test_a_submit_that_was_cancelled_while_it_waited_is_not_sent(studio: Studio) -> None:
    task_id = await studio.submit()
    job = await claimed_submit(studio)

    async def cancelled_meanwhile() -> None:
        await studio.database.run(cancel_task, USER, task_id)

    job.permit_waiter = cancelled_meanwhile
    assert not await studio.run(job)
    assert await studio.facts(task_id) == []
    assert studio.sandbox.calls(route="submit") == []
    assert await studio.balance() == (CREDITS, 0)


async def test_a_search_for_a_lost_submit_asks_about_one_id_with_each_permit(studio: Studio) -> None:
    task_id, _remote = await lost_submit(studio, "a fox of many names")
    await studio.step()
    for remote in ("b-unknown", "a-unknown", "c-unknown"):
        await call_back(studio, task_id, remote)
    asked = [len(studio.sandbox.calls(route="query"))]
    for _ in range(3):
        assert "generation.attach" in await studio.step()
        asked.append(len(studio.sandbox.calls(route="query")))
    assert asked == [0, 1, 2, 3]
    await studio.step()
    assert "generation.attach" not in await studio.jobs()
