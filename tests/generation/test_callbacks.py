"""Callbacks are hints: they find lost tasks again, and can do no harm (F3, F50)."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from longtake.capabilities.generation.lost_submits import take_hint
from longtake.errors import NotFound
from tests.engine.stage import finish
from tests.generation.studio import CREDITS
from tests.generation.test_life_of_a_task import everything_adds_up
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtake import Job, Outcome, Transaction
    from tests.generation.studio import Studio


async def call_back(studio: Studio, task_id: str, remote_id: str, **more: Any) -> None:
    reference = (await studio.task(task_id)).reference
    body = {"code": 200, "data": {"taskId": remote_id, "state": "success", **more}}
    await studio.generation.callback("kie", reference, body, {})


async def lost_submit(studio: Studio, prompt: str = "a lost fox") -> tuple[str, str]:
    """Return a task whose acceptance was lost, and the remote id it would have had."""
    studio.sandbox.faults("accept_then_drop", route="submit", times=1)
    task_id = await studio.submit(prompt)
    await studio.step()
    assert (await studio.task(task_id)).needs_review
    return task_id, str(newest(studio, prompt)["id"])


def newest(studio: Studio, prompt: str) -> dict[str, Any]:
    """Return the newest task the sandbox accepted with this prompt."""
    return [task for task in studio.sandbox.tasks() if task["prompt"] == prompt][-1]


async def test_the_callback_address_brings_back_the_tasks_reference(studio: Studio) -> None:
    task_id = await studio.submit("an addressed fox")
    await studio.step()
    remote = newest(studio, "an addressed fox")
    reference = (await studio.task(task_id)).reference
    assert remote["callback_url"] == f"http://127.0.0.1:9/v1/callbacks/kie?reference={reference}"


async def test_a_callback_finds_a_lost_task_and_the_task_continues(studio: Studio) -> None:
    """F3: killed after the provider accepted, before its id is saved."""
    task_id, remote = await lost_submit(studio, "a lost fox that is found")
    await studio.step()
    assert (await studio.task(task_id)).needs_review
    await call_back(studio, task_id, remote)
    await studio.step()
    task = await studio.task(task_id)
    assert (task.status, task.needs_review, task.provider_task_id) == ("running", False, remote)
    assert ("SUBMIT_UNKNOWN", "resolved") in await studio.alerts()
    assert (await studio.follow(task_id)).status == "completed"
    assert len(studio.sandbox.calls(route="submit")) == 1
    await everything_adds_up(studio)


async def test_a_callback_before_the_loss_is_noticed_is_remembered(studio: Studio) -> None:
    """F3: killed after the provider accepted, before its id is saved."""
    studio.sandbox.faults("accept_then_drop", route="submit", times=1)
    task_id = await studio.submit("an early fox")
    [job] = [job for job in await studio.claim() if job.kind == "generation.submit"]
    outcome = await studio.engine.kinds[job.kind].handler(job)
    remote = newest(studio, "an early fox")["id"]
    await call_back(studio, task_id, str(remote))
    assert await studio.database.run(finish, studio.engine, job, outcome, studio.worker)
    await studio.step()
    assert (await studio.task(task_id)).provider_task_id == remote


async def test_a_callback_during_the_check_of_an_earlier_one_is_not_forgotten(studio: Studio) -> None:
    """F3: killed after the provider accepted, before its id is saved."""
    task_id, remote = await lost_submit(studio, "a fox lost in between")
    [look] = [job for job in await studio.claim() if job.kind == "generation.attach"]
    outcome = await studio.engine.kinds[look.kind].handler(look)
    # The look has found nothing and is not yet over: a second one cannot be enqueued now.
    await call_back(studio, task_id, remote)
    assert await studio.database.run(finish, studio.engine, look, outcome, studio.worker)
    studio.clock.advance(16)
    await studio.step()
    await studio.step()
    assert (await studio.task(task_id)).provider_task_id == remote


async def test_a_callback_only_hurries_the_next_poll(studio: Studio) -> None:
    """F50: duplicate, early and forged callbacks."""
    task_id = await studio.submit("a hurried fox [never]")
    await studio.step()
    remote = (await studio.task(task_id)).provider_task_id or ""
    for _ in range(3):
        await call_back(studio, task_id, remote)
    await studio.step()
    # It said success; the provider says otherwise, and that counts.
    assert (await studio.task(task_id)).status == "running"
    assert len(studio.sandbox.calls(route="query", task=remote)) == 1


async def followed(studio: Studio, prompt: str) -> tuple[str, str]:
    """Return a task that was asked about once, and its remote id."""
    task_id = await studio.submit(prompt)
    await studio.step()
    studio.clock.advance(33)
    assert "generation.poll" in await studio.step()
    return task_id, (await studio.task(task_id)).provider_task_id or ""


def queries(studio: Studio, remote: str) -> int:
    return len(studio.sandbox.calls(route="query", task=remote))


async def test_a_callback_right_after_a_poll_has_the_task_asked_about_a_second_later(studio: Studio) -> None:
    task_id, remote = await followed(studio, "a fox that ends after its poll [never]")
    studio.clock.advance(0.25)
    await call_back(studio, task_id, remote)
    studio.clock.advance(0.5)
    await studio.step()
    assert queries(studio, remote) == 1
    studio.clock.advance(0.25)
    await studio.step()
    assert queries(studio, remote) == 2


async def test_a_callback_while_a_poll_runs_has_the_task_asked_about_once_more(studio: Studio) -> None:
    task_id, remote = await followed(studio, "a fox that ends during its poll [never]")
    studio.clock.advance(33)
    [job] = [job for job in await studio.claim() if job.kind == "generation.poll"]
    outcome = await studio.engine.kinds[job.kind].handler(job)
    # The provider has answered, and the answer is not yet written.
    for _ in range(3):
        await call_back(studio, task_id, remote)
    assert await studio.database.run(finish, studio.engine, job, outcome, studio.worker)
    await studio.step()
    assert queries(studio, remote) == 2
    for wait in (1, 5, 5):
        studio.clock.advance(wait)
        await studio.step()
    assert queries(studio, remote) == 3


async def test_a_callback_ends_the_wait_after_trouble(studio: Studio) -> None:
    task_id, remote = await followed(studio, "a fox that ends in bad weather [never]")
    studio.sandbox.faults("status", status=503, route="query", times=1)
    studio.clock.advance(33)
    await studio.step()
    assert (await studio.task(task_id)).trouble is not None
    await call_back(studio, task_id, remote)
    studio.clock.advance(1)
    await studio.step()
    assert queries(studio, remote) == 3
    assert (await studio.task(task_id)).trouble is None


async def test_many_callbacks_cause_at_most_one_poll_a_second(studio: Studio) -> None:
    """F50: duplicate, early and forged callbacks."""
    task_id, remote = await followed(studio, "a fox everybody talks about [never]")
    for _ in range(30):
        studio.clock.advance(0.1)
        await call_back(studio, task_id, remote)
        for job in [job for job in await studio.claim() if job.kind == "generation.poll"]:
            await call_back(studio, task_id, remote)
            await studio.run(job)
    assert 3 <= queries(studio, remote) <= 4


async def accepted_submit(studio: Studio, prompt: str) -> tuple[str, str, Job, Outcome]:
    """Return a task its provider has accepted, which its own row does not know yet: the job and its outcome."""
    task_id = await studio.submit(prompt)
    [job] = [job for job in await studio.claim() if job.kind == "generation.submit"]
    outcome = await studio.engine.kinds[job.kind].handler(job)
    return task_id, str(newest(studio, prompt)["id"]), job, outcome


async def test_a_callback_before_the_acceptance_is_settled_has_the_task_asked_about_at_once(studio: Studio) -> None:
    task_id, remote, job, outcome = await accepted_submit(studio, "a fox that is done already")
    await call_back(studio, task_id, remote)
    assert await studio.database.run(finish, studio.engine, job, outcome, studio.worker)
    assert "generation.poll" in await studio.step()
    assert queries(studio, remote) == 1


async def test_a_callback_before_the_answer_has_the_task_asked_about_at_once(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id, prompt = await studio.submit("a fox faster than its answer"), "a fox faster than its answer"
    provider = studio.context.providers["kie"]
    submit: Callable[[Any], Any] = provider.submit

    async def answer_late(request: Any) -> Any:
        answer = await submit(request)
        await call_back(studio, task_id, str(newest(studio, prompt)["id"]))
        return answer

    monkeypatch.setattr(provider, "submit", answer_late)
    await studio.step()
    assert "generation.poll" in await studio.step()
    assert queries(studio, str(newest(studio, prompt)["id"])) == 1


async def test_an_early_callback_with_another_id_hurries_nothing(studio: Studio) -> None:
    """F50: duplicate, early and forged callbacks."""
    task_id, remote, job, outcome = await accepted_submit(studio, "a fox that others talk about")
    await call_back(studio, task_id, "another-id")
    assert await studio.database.run(finish, studio.engine, job, outcome, studio.worker)
    await studio.step()
    assert queries(studio, remote) == 0


@pytest.mark.parametrize("first", ["callback", "acceptance"])
async def test_a_callback_at_the_very_moment_of_the_acceptance_is_not_missed(studio: Studio, first: str) -> None:
    """Neither transaction sees what the other has not committed: one must wait for the other."""
    task_id, remote, job, outcome = await accepted_submit(studio, "a fox of that very moment")
    provider = studio.context.providers["kie"]
    written, may_commit = threading.Event(), threading.Event()

    def hint(tx: Transaction) -> None:
        take_hint(tx, studio.engine, provider, task_id, remote)

    def settle(tx: Transaction) -> None:
        assert finish(tx, studio.engine, job, outcome, studio.worker)

    earlier, later = (hint, settle) if first == "callback" else (settle, hint)

    def commit_late(tx: Transaction) -> None:
        earlier(tx)
        written.set()
        may_commit.wait(PATIENCE_SECONDS)

    one = asyncio.ensure_future(studio.database.run(commit_late))
    await asyncio.to_thread(written.wait, 30)
    other = asyncio.ensure_future(studio.database.run(later))
    # It waits for the first, or else it is over by now.
    await asyncio.wait({other}, timeout=0.5)
    may_commit.set()
    await asyncio.gather(one, other)
    await studio.step()
    assert queries(studio, remote) == 1


async def test_forged_callbacks_change_nothing(studio: Studio) -> None:
    """F50: duplicate, early and forged callbacks."""
    other = await studio.submit("another fox [never]")
    await studio.step()
    other_remote = (await studio.task(other)).provider_task_id or ""
    task_id, _remote = await lost_submit(studio, "a lost fox to be stolen")
    for remote in ("no-such-task", other_remote, *(f"guess-{number}" for number in range(20))):
        await call_back(studio, task_id, remote)
    await studio.step()
    task = await studio.task(task_id)
    assert (task.status, task.needs_review, task.provider_task_id) == ("pending", True, None)
    assert (await studio.facts(task_id)).count("reported") == 5
    assert await studio.balance() == (CREDITS - 8, 8)


async def test_a_callback_with_another_id_does_not_touch_a_running_task(studio: Studio) -> None:
    """F50: duplicate, early and forged callbacks."""
    task_id = await studio.submit("a steady fox [never]")
    await studio.step()
    before = await studio.task(task_id)
    await call_back(studio, task_id, "another-id")
    await studio.step()
    assert await studio.task(task_id) == before


@pytest.mark.parametrize("body", [None, [], "text", {}, {"data": None}, {"data": {"taskId": 5}}, {"taskId": "\0"}])
async def test_a_callback_that_makes_no_sense_is_ignored(studio: Studio, body: Any) -> None:
    """F50: duplicate, early and forged callbacks."""
    task_id = await studio.submit("a puzzled fox [never]")
    await studio.step()
    before = await studio.task(task_id)
    await studio.generation.callback("kie", before.reference, body, {})
    assert await studio.task(task_id) == before


@pytest.mark.parametrize("provider", ["kie", "gemini_veo", "nobody"])
async def test_whoever_does_not_know_the_reference_learns_nothing(studio: Studio, provider: str) -> None:
    task_id = await studio.submit("a hidden fox")
    reference = (await studio.task(task_id)).reference if provider != "kie" else "wrong"
    with pytest.raises(NotFound):
        await studio.generation.callback(provider, reference, {"taskId": "x"}, {})
