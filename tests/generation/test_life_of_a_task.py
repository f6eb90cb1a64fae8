"""From request to result: one hold, one end, one message, one capture or release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from longtake.capabilities.generation.errors import InvalidReferences
from longtake.capabilities.generation.submissions import check_request
from longtake.capabilities.generation.tables import TaskFilter
from longtake.capabilities.generation.tasks import NewTask, TaskLimits, cancel_task, create_task
from longtake.errors import NotFound, StateConflict
from longtake.http.errors import IdempotencyKeyReused
from longtake.http.problems import error_response
from longtake.services.conversations.store import create_conversation
from longtake.services.credits.errors import InsufficientCredits, TooManyTasks
from tests.credits.stage import audit
from tests.generation.studio import CREDITS, USER

if TYPE_CHECKING:
    from tests.generation.studio import Studio

IMAGE_MODELS = ["nano-banana", "gemini-flash-image"]
VIDEO_MODELS = ["kling-2.6", "veo3-fast", "veo-3.1-fast"]


async def new_conversation(studio: Studio, user: str = USER) -> str:
    made = await studio.database.run(create_conversation, user, "Foxes")
    return str(made["id"] if isinstance(made, dict) else made.id)


async def everything_adds_up(studio: Studio) -> None:
    assert await studio.database.read(audit) == []


@pytest.mark.parametrize("model", [*IMAGE_MODELS, *VIDEO_MODELS])
async def test_a_task_of_each_provider_is_completed_charged_and_told(studio: Studio, model: str) -> None:
    price = studio.generation.offered.models[model].credits
    conversation = await new_conversation(studio)
    task_id = await studio.submit(model=model, conversation=conversation)
    assert (await studio.task(task_id)).status == "pending"
    assert await studio.balance() == (CREDITS - price, price)

    task = await studio.follow(task_id)

    assert (task.status, task.fail_code) == ("completed", None)
    assert await studio.balance() == (CREDITS - price, 0)
    assert len(studio.sandbox.calls(route="submit")) == 1
    message = await studio.sql("SELECT state, task_id FROM messages WHERE id = :id", id=task.completed_message_id)
    assert [(state, str(of)) for state, of in message] == [("completed", task_id)]
    assert await studio.sql("SELECT unread FROM conversations") == [(1,)]
    assert (await studio.events(task_id)).count("task.created") == 1
    assert (await studio.events(task_id)).count("task.completed") == 1
    await everything_adds_up(studio)

    shown = await studio.generation.show(USER, task_id)
    assert len(shown["results"]) == 1
    # Google's files want the key, which readers do not get: they wait for our copy.
    assert (shown["results"][0]["url"] is None) == (model == "veo-3.1-fast")
    assert shown["credits"]["state"] == "captured"


async def test_bytes_are_in_storage_before_the_task_is_completed(studio: Studio) -> None:
    task_id = await studio.submit(model="gemini-flash-image")
    await studio.follow(task_id)
    [(key, state, size)] = await studio.sql("SELECT key, mirror_state, size FROM assets")
    assert state == "completed"
    body = await studio.context.storage.get(key, 50_000_000)
    assert len(body) == size
    assert body.startswith((b"\x89PNG", b"\xff\xd8"))


async def test_a_result_is_copied_to_our_storage_and_readers_then_get_ours(studio: Studio) -> None:
    task_id = await studio.submit()
    await studio.follow(task_id)
    [before] = (await studio.generation.show(USER, task_id))["results"]
    assert (before["save_state"], before["url"].startswith(studio.sandbox.url)) == ("pending", True)
    assert "assets.mirror" in await studio.step()
    [after] = (await studio.generation.show(USER, task_id))["results"]
    assert after["save_state"] == "success"
    assert after["url"].startswith("http://127.0.0.1:9/v1/assets/")


async def test_without_a_conversation_all_works_and_no_message_is_written(studio: Studio) -> None:
    task = await studio.follow(await studio.submit())
    assert task.status == "completed"
    assert await studio.sql("SELECT count(*) FROM messages") == [(0,)]


async def test_what_the_provider_fails_is_failed_and_released(studio: Studio) -> None:
    conversation = await new_conversation(studio)
    task = await studio.follow(await studio.submit("a fox [fail]", conversation=conversation))
    assert task.status == "failed"
    assert task.fail_code
    assert task.error
    assert (task.credits_held, task.credits_refunded) == (4, 4)
    shown = await studio.generation.show(USER, task.id)
    assert shown["credits"] == {"price": 4, "refunded": 0, "state": "released"}
    assert await studio.balance() == (CREDITS, 0)
    assert await studio.sql("SELECT state FROM messages WHERE role = 'assistant'") == [("failed",)]
    await everything_adds_up(studio)


@pytest.mark.parametrize("model", IMAGE_MODELS)
async def test_a_blocked_prompt_names_its_reason(studio: Studio, model: str) -> None:
    task = await studio.follow(await studio.submit("a fox [blocked]", model=model))
    assert task.status == "failed"
    assert task.fail_code not in {None, "", "UNEXPECTED"}
    assert await studio.balance() == (CREDITS, 0)


async def test_too_few_credits_are_refused_with_balance_and_price_and_nothing_is_written(studio: Studio) -> None:
    await studio.grant("poor", 3)
    with pytest.raises(InsufficientCredits) as raised:
        await studio.ask(user="poor")
    assert (raised.value.facts["balance"], raised.value.facts["price"]) == (3, 4)
    assert await studio.sql("SELECT count(*) FROM tasks") == [(0,)]
    assert await studio.jobs() == []
    assert await studio.balance("poor") == (3, 0)


async def test_another_users_conversation_does_not_exist(studio: Studio) -> None:
    foreign = await new_conversation(studio, "bob")
    with pytest.raises(NotFound):
        await studio.ask(conversation=foreign)
    assert await studio.balance() == (CREDITS, 0)
    assert await studio.sql("SELECT count(*) FROM tasks") == [(0,)]


async def test_a_reference_that_is_not_ours_is_refused(studio: Studio) -> None:
    with pytest.raises(InvalidReferences):
        await studio.ask(model="nano-banana-edit", references=["019a0000-0000-7000-8000-000000000000"])
    assert await studio.balance() == (CREDITS, 0)


async def test_one_user_cannot_have_more_under_way_than_allowed(studio: Studio) -> None:
    model = studio.generation.offered.models["nano-banana"]
    limits = TaskLimits(unfinished=2, queue_seconds=60)
    for number in range(3):
        new = NewTask(USER, check_request(model, "fox", {}, [], None), "default", None)
        if number == 2:
            with pytest.raises(TooManyTasks):
                await studio.database.run(create_task, studio.engine, new, limits)
        else:
            await studio.database.run(create_task, studio.engine, new, limits)


async def test_the_same_idempotency_key_gets_the_first_answer_again(studio: Studio) -> None:
    first = await studio.ask(key="k1")
    again = await studio.ask(key="k1")
    assert (again.body, again.replayed, first.replayed) == (first.body, True, False)
    with pytest.raises(IdempotencyKeyReused):
        await studio.ask("another prompt", key="k1")
    assert (await studio.ask(key="k2")).body["id"] != first.body["id"]
    assert await studio.balance() == (CREDITS - 8, 8)


async def test_a_refused_request_leaves_its_idempotency_key_free(studio: Studio) -> None:
    with pytest.raises(InsufficientCredits):
        await studio.ask(user="eve", key="k1")
    await studio.grant("eve", 4)
    assert not (await studio.ask(user="eve", key="k1")).replayed


@pytest.mark.parametrize("steps", [0, 1], ids=["pending", "running"])
async def test_cancel_releases_and_stops_following(studio: Studio, steps: int) -> None:
    task_id = await studio.submit("a fox [never]")
    for _ in range(steps):
        await studio.step()
    cancelled = await studio.database.run(cancel_task, USER, task_id)
    assert cancelled.status == "cancelled"
    assert await studio.balance() == (CREDITS, 0)
    assert await studio.jobs() == []
    again = await studio.database.run(cancel_task, USER, task_id)
    assert again.status == "cancelled"
    await everything_adds_up(studio)


async def test_a_completed_task_cannot_be_cancelled(studio: Studio) -> None:
    task_id = await studio.submit()
    await studio.follow(task_id)
    with pytest.raises(StateConflict) as refusal:
        await studio.database.run(cancel_task, USER, task_id)
    assert error_response(refusal.value).status_code == 409
    assert (await studio.task(task_id)).status == "completed"


async def test_retry_makes_a_new_task_that_points_to_the_old_one(studio: Studio) -> None:
    old = await studio.submit("a fox [fail]", aspect_ratio="16:9")
    with pytest.raises(StateConflict) as refusal:
        await studio.generation.retry(USER, old, None, "")
    assert error_response(refusal.value).status_code == 409
    await studio.follow(old)
    new = (await studio.generation.retry(USER, old, None, "")).body
    assert (new["retry_of"], new["parameters"]["aspect_ratio"]) == (old, "16:9")
    assert (await studio.task(old)).status == "failed"
    with pytest.raises(NotFound):
        await studio.generation.retry("bob", old, None, "")


async def test_the_estimate_comes_from_past_runs(studio: Studio) -> None:
    await studio.follow(await studio.submit())
    models = {model["name"]: model for model in await studio.generation.models()}
    assert models["nano-banana"]["estimate"].runs == 1
    assert models["nano-banana"]["estimate"].median_seconds == pytest.approx(31, abs=3)
    assert models["kling-2.6"]["estimate"].runs == 0


@pytest.mark.parametrize("conversation", [False, True])
async def test_a_list_has_the_newest_of_every_status_asked_for(studio: Studio, *, conversation: bool) -> None:
    where = await new_conversation(studio) if conversation else None
    made = [await studio.submit(f"fox {number}", conversation=where) for number in range(6)]
    for one in (made[0], made[4]):
        await studio.generation.cancel(USER, one)
    await studio.follow(made[1])
    wanted = TaskFilter(("cancelled", "completed", "running"), "image", "nano-banana", where)
    first = await studio.generation.page(USER, wanted, None, 4)
    assert [task["id"] for task in first] == made[:1:-1]
    rest = await studio.generation.page(USER, wanted, made[2], 4)
    assert [task["id"] for task in rest] == [made[1], made[0]]
    cancelled = await studio.generation.page(USER, TaskFilter(("cancelled",), None, None, where), None, 4)
    assert [task["id"] for task in cancelled] == [made[4], made[0]]
    assert await studio.generation.page("eve", wanted, None, 4) == []
