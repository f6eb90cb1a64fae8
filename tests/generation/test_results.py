"""Results after completion: saved again by hand, a fresh address, or lost and refunded (F41, F44)."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from longtake.capabilities.generation.errors import PublicAddressMissing
from longtake.capabilities.media.imports import add_reference
from longtake.errors import StateConflict
from longtake.services.assets import AssetLinks
from tests.generation.studio import CREDITS, USER
from tests.generation.test_life_of_a_task import everything_adds_up

if TYPE_CHECKING:
    from tests.generation.studio import Studio


async def test_an_expired_address_is_replaced_by_a_fresh_one(studio: Studio) -> None:
    """F44: the address of a result has expired."""
    rule = studio.sandbox.faults("status", status=410, route="file", times=1)
    task_id = await studio.submit()
    await studio.follow(task_id)
    queries = len(studio.sandbox.calls(route="query"))
    await studio.step()
    assert studio.sandbox.applied(rule) == 1
    assert len(studio.sandbox.calls(route="query")) == queries + 1
    [result] = (await studio.generation.show(USER, task_id))["results"]
    assert result["save_state"] == "success"


async def test_a_result_that_is_lost_is_refunded_once_and_the_task_stays_completed(studio: Studio) -> None:
    """F41: success, then 404 on the file."""
    studio.sandbox.faults("status", status=404, route="file")
    task_id = await studio.submit()
    await studio.follow(task_id)
    assert await studio.balance() == (CREDITS - 4, 0)
    for _ in range(40):
        await studio.step()
        studio.clock.advance(120)
    task = await studio.task(task_id)
    assert (task.status, task.credits_refunded) == ("completed", 4)
    assert await studio.balance() == (CREDITS, 0)
    [result] = (await studio.generation.show(USER, task_id))["results"]
    assert result["save_state"] in {"expired", "failed"}
    assert ("RESULT_NOT_SAVED", "open") in await studio.alerts()
    shown = await studio.generation.show(USER, task_id)
    assert shown["credits"] == {"price": 4, "refunded": 4, "state": "refunded"}
    await everything_adds_up(studio)


async def test_saving_again_by_hand_works_after_the_provider_recovered(studio: Studio) -> None:
    studio.sandbox.faults("status", status=500, route="file")
    task_id = await studio.submit()
    await studio.follow(task_id)
    await studio.step()
    studio.sandbox.clear_faults()
    await studio.generation.retry_save(USER, task_id)
    await studio.step()
    [result] = (await studio.generation.show(USER, task_id))["results"]
    assert result["save_state"] == "success"


async def test_there_is_nothing_to_save_of_an_unfinished_task(studio: Studio) -> None:
    task_id = await studio.submit("a fox [never]")
    with pytest.raises(StateConflict):
        await studio.generation.retry_save(USER, task_id)


def picture() -> bytes:
    file = BytesIO()
    Image.new("RGB", (256, 256), "orange").save(file, "PNG")
    return file.getvalue()


async def test_a_reference_is_sent_as_bytes_if_the_provider_takes_them(studio: Studio) -> None:
    """X5: reference images."""
    asset = await add_reference(studio.database, studio.context.storage, USER, picture(), "image/png")
    task = await studio.follow(await studio.submit(model="gemini-flash-image", references=[asset.id]))
    assert task.status == "completed"
    assert task.references == [asset.id]


async def test_a_reference_is_sent_as_an_address_that_the_provider_fetches(studio: Studio) -> None:
    """X5: reference images."""
    asset = await add_reference(studio.database, studio.context.storage, USER, picture(), "image/png")
    await studio.submit("a fox like this one", model="nano-banana-edit", references=[asset.id])
    await studio.step()
    [call] = studio.sandbox.calls(route="submit")
    assert call["status"] == 200
    sent = studio.context.get(AssetLinks).url
    assert (await sent(asset) or "").startswith("http://127.0.0.1:9/v1/assets/")


async def test_without_a_public_address_such_a_reference_is_refused_before_credits_are_held(studio: Studio) -> None:
    """X5: reference images."""
    asset = await add_reference(studio.database, studio.context.storage, USER, picture(), "image/png")
    cancelled = await studio.submit(model="nano-banana-edit", references=[asset.id])
    await studio.generation.cancel(USER, cancelled)
    object.__setattr__(studio.generation, "reachable", False)
    with pytest.raises(PublicAddressMissing):
        await studio.ask(model="nano-banana-edit", references=[asset.id])
    with pytest.raises(PublicAddressMissing):
        await studio.generation.retry(USER, cancelled, None, "request-2")
    assert await studio.balance() == (CREDITS, 0)
