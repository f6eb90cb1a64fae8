"""Watched tasks are asked about sooner, and whoever waits hears of the end at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from longtake.clock import new_id
from tests.generation.studio import USER
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from tests.generation.studio import Studio


async def polls(studio: Studio, seconds: int, *, watched: bool) -> int:
    """Count the queries of one task within so many seconds of following it second by second."""
    before = len(studio.sandbox.calls(route="query"))
    [task] = await studio.generation.pending(USER)
    for _ in range(seconds):
        studio.clock.advance(1)
        if watched:
            studio.watch.touch(task["id"], task["type"])
        await studio.watch.round()
        await studio.step()
    return len(studio.sandbox.calls(route="query")) - before


@pytest.mark.parametrize(("model", "expected"), [("nano-banana", 15), ("kling-2.6", 6)])
async def test_a_watched_task_is_asked_about_every_few_seconds(studio: Studio, model: str, expected: int) -> None:
    await studio.submit("a fox [never]", model=model)
    await studio.step()
    assert abs(await polls(studio, 30, watched=True) - expected) <= 1


async def test_an_unwatched_task_is_asked_about_at_the_base_interval(studio: Studio) -> None:
    await studio.submit("a fox [never]")
    await studio.step()
    # The look that `polls` takes to find the task counts as interest for ten seconds.
    assert await polls(studio, 12, watched=False) <= 5
    assert await polls_without_a_look(studio, 60) <= 3


async def polls_without_a_look(studio: Studio, seconds: int) -> int:
    before = len(studio.sandbox.calls(route="query"))
    for _ in range(seconds):
        studio.clock.advance(1)
        await studio.watch.round()
        await studio.step()
    return len(studio.sandbox.calls(route="query")) - before


async def test_whoever_waits_hears_of_the_end_in_the_round_after_it(studio: Studio) -> None:
    task_id = await studio.submit()
    waiting = asyncio.create_task(studio.watch.ended(task_id, "image", 60))
    await asyncio.sleep(0)
    await studio.watch.round()
    assert not waiting.done()
    await studio.follow(task_id)
    await studio.watch.round()
    assert await asyncio.wait_for(waiting, PATIENCE_SECONDS)


async def test_a_signal_wakes_the_rounds(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longtake.capabilities.generation.watch.ROUND_SECONDS", 3_600.0)
    task_id = await studio.submit()
    async with studio.watch.running():
        waiting = asyncio.create_task(studio.generation.show(USER, task_id, 60))
        await studio.follow(task_id)
        shown = await asyncio.wait_for(waiting, PATIENCE_SECONDS)
    assert shown["status"] == "completed"


async def test_very_many_may_be_watched_and_awaited_at_once(studio: Studio) -> None:
    """More than a statement can have parameters."""
    watch = studio.watch
    task_id = await studio.submit("a fox among many [never]")
    await studio.step()
    many = [*(new_id() for _ in range(66_000)), task_id]
    for one in many:
        watch.touch(one, "image")
        watch._awaited[one].add(asyncio.Event())
    studio.clock.advance(3)
    await watch.round()
    await studio.step()
    assert len(studio.sandbox.calls(route="query")) == 1
