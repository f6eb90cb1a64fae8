"""Whoever has a stream of events open watches all their unfinished tasks; nobody else's, and not for longer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from longtake.capabilities.generation import watch as watch_module
from tests.engine.stage import until_readable
from tests.generation.studio import USER

if TYPE_CHECKING:
    from tests.generation.studio import Studio


async def polls(studio: Studio, seconds: int) -> int:
    """Count the queries within so many seconds; the feed and the watch take their turns as in a server."""
    before = len(studio.sandbox.calls(route="query"))
    for _ in range(seconds):
        studio.clock.advance(1)
        await studio.feed.round()
        await studio.watch.round()
        await studio.step()
    return len(studio.sandbox.calls(route="query")) - before


@pytest.mark.parametrize(("model", "expected"), [("nano-banana", 15), ("kling-2.6", 6)])
async def test_tasks_of_a_user_with_an_open_stream_are_asked_about_every_few_seconds(
    studio: Studio, model: str, expected: int
) -> None:
    await studio.submit("a fox [never]", model=model)
    await studio.step()
    reader = await studio.feed.join(USER, ())
    assert abs(await polls(studio, 30) - expected) <= 1
    studio.feed.leave(reader)
    assert await polls(studio, 60) <= 4


async def test_a_task_that_begins_while_the_stream_is_open_is_watched_and_forgotten_when_it_ends(
    studio: Studio,
) -> None:
    feed, watch = studio.feed, studio.watch
    reader = await feed.join(USER, ())
    await watch.round()
    task_id = await studio.submit("a fox [never]")
    assert await polls(studio, 20) >= 8
    assert task_id in watch._watched
    await studio.generation.cancel(USER, task_id)
    await until_readable(studio.database)
    await feed.round()
    assert task_id not in watch._watched
    feed.leave(reader)


@pytest.mark.parametrize("before", [True, False])
async def test_of_many_tasks_the_others_are_watched_when_the_first_have_ended(
    studio: Studio, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    monkeypatch.setattr(watch_module, "MOST_OF_A_USER", 2)
    feed, watch = studio.feed, studio.watch
    tasks = {await studio.submit("a fox [never]") for _ in range(3 if before else 0)}
    reader = await feed.join(USER, ())
    await watch.round()
    tasks |= {await studio.submit("a fox [never]") for _ in range(0 if before else 3)}
    await until_readable(studio.database)
    await feed.round()
    watched = set(watch._watched)
    assert len(watched) == 2
    for task_id in watched:
        await studio.generation.cancel(USER, task_id)
    await until_readable(studio.database)
    await feed.round()
    await watch.round()
    assert set(watch._watched) == tasks - watched
    feed.leave(reader)


async def test_a_stream_of_somebody_else_changes_nothing(studio: Studio) -> None:
    await studio.submit("a fox [never]")
    await studio.step()
    reader = await studio.feed.join("eve", ())
    assert await polls(studio, 60) <= 3
    studio.feed.leave(reader)


async def test_a_task_that_ends_while_the_tasks_are_being_looked_for_is_not_kept(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, watch = studio.feed, studio.watch
    task_id = await studio.submit("a fox [never]")
    reader = await feed.join(USER, ())
    read = studio.database.read

    async def late(function: Any, *arguments: Any, as_user: str | None = None) -> Any:
        found = await read(function, *arguments, as_user=as_user)
        if function.__name__ == "_unfinished":
            # What was read is old before it arrives.
            monkeypatch.setattr(studio.database, "read", read)
            await studio.generation.cancel(USER, task_id)
            await until_readable(studio.database)
            await feed.round()
        return found

    monkeypatch.setattr(studio.database, "read", late)
    await watch.round()
    assert task_id not in watch._watched
    feed.leave(reader)


async def test_the_tasks_are_looked_for_once_and_nobody_listens_without_streams(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, watch = studio.feed, studio.watch
    asked = []
    read = studio.database.read

    async def counted(function: Any, *arguments: Any, as_user: str | None = None) -> Any:
        asked.append(function.__name__)
        return await read(function, *arguments, as_user=as_user)

    monkeypatch.setattr(studio.database, "read", counted)
    readers = [await feed.join(USER, ()) for _ in range(3)]
    for _ in range(5):
        await watch.round()
    assert asked.count("_unfinished") == 1
    for reader in readers:
        feed.leave(reader)
    assert not feed._in_use.is_set()
