"""A run from its making to its last image: states, credits, events and what callers read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import update

from longtake import Fail
from longtake.capabilities.scenes.queue import ImageOrder, advance_run
from longtake.capabilities.scenes.runs import delete_run
from longtake.capabilities.scenes.tables import get_run, scene_runs
from longtake.db.dialects import NOW, SQLITE
from longtake.errors import NotFound, StateConflict
from longtake.services.accounts.deletion import AccountDeletion
from longtake.services.credits.errors import InsufficientCredits
from tests.crossing import meet
from tests.engine.stage import finish
from tests.generation.studio import CREDITS, USER
from tests.scenes.stage import LANE, MODEL, PRICE
from tests.statements import statements

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtake import Transaction
    from tests.scenes.stage import SceneStudio


async def test_a_cancel_that_was_killed_halfway_makes_no_image(studio: SceneStudio) -> None:
    """A cancel takes two transactions where images were queued meanwhile: the first one says that the run is over."""
    run_id = await studio.make(3, advance=True)

    def stop_halfway(tx: Transaction) -> None:
        tx.execute(update(scene_runs).where(scene_runs.c.id == run_id).values(cancelled_at=NOW))

    await studio.database.run(stop_halfway)
    await studio.finish(run_id)
    assert await studio.states(run_id) == ["cancelled"] * 3
    assert await studio.balance() == (CREDITS, 0)
    assert studio.sandbox.calls(route="submit") == []


async def test_an_advance_takes_few_statements(studio: SceneStudio) -> None:
    """What its promise of 100 ms rests on; `./dev bench scenes` measures that. The holds of the images are one each."""
    await studio.advance(await studio.make(10))
    run_id = await studio.make(10)
    with statements(studio.database) as sent:
        await studio.advance(run_id)
    assert len(sent) == (77 if studio.database.dialect == SQLITE else 33), "\n".join(sent)


async def test_a_run_is_made_queued_and_completed(studio: SceneStudio) -> None:
    run_id = await studio.make(3)
    made = await studio.show(run_id)
    assert (made["status"], made["model"], made["title"]) == ("created", MODEL, "A story")
    assert [scene["state"] for scene in made["scenes"]] == ["waiting"] * 3
    assert await studio.balance() == (CREDITS, 0)

    done = await studio.advance(run_id)
    assert (done["action"], done["queued"], done["run"]["status"]) == ("images_queued", 3, "generating")
    assert done["run"]["credits"] == {"held": 3 * PRICE, "charged": 0}
    assert await studio.balance() == (CREDITS - 3 * PRICE, 3 * PRICE)

    run = await studio.finish(run_id)
    assert run["status"] == "completed"
    assert run["total"] == {
        "scenes": 3, "waiting": 0, "queued": 0, "processing": 0, "completed": 3, "failed": 0, "cancelled": 0,
        "percent": 100,
    }  # fmt: skip
    assert run["credits"] == {"held": 0, "charged": 3 * PRICE}
    assert await studio.balance() == (CREDITS - 3 * PRICE, 0)
    for scene in run["scenes"]:
        assert all(scene[name] for name in ("image_url", "asset_id", "started_at", "ended_at"))
        assert (scene["attempt"], scene["max_attempts"], scene["reason"]) == (1, 3, None)
    assert len(studio.sandbox.calls(route="submit")) == 3
    assert await studio.audit() == []


async def test_the_images_are_assets_with_thumbnails(studio: SceneStudio) -> None:
    run_id = await studio.make(3, advance=True)
    await studio.finish(run_id)
    while "assets.thumbnail" in await studio.jobs():
        await studio.step()
        studio.clock.advance(5)
    run = await studio.show(run_id)
    assert all(scene["thumbnail_url"] and scene["placeholder"] for scene in run["scenes"])
    rows = await studio.sql("SELECT role, kind, position, task_id FROM assets ORDER BY position")
    assert rows == [("scene", "image", number, None) for number in (1, 2, 3)]


async def test_events_tell_the_story_and_the_end_is_told_once(studio: SceneStudio) -> None:
    run_id = await studio.make(3, advance=True)
    await studio.finish(run_id)
    told = await studio.told(run_id)
    assert told[:2] == [("run.created", None), ("run.queued", None)]
    assert told[-1] == ("run.finished", None)
    between = told[2:-1]
    assert sorted(between) == sorted(
        (kind, number) for kind in ("scene.processing", "scene.completed") for number in (1, 2, 3)
    )


async def test_where_the_time_went_is_kept(studio: SceneStudio, monkeypatch: pytest.MonkeyPatch) -> None:
    provider, storage = studio.context.providers["gemini_image"], studio.context.storage
    submit, put = provider.submit, storage.put

    async def submit_slowly(*arguments: Any) -> Any:
        studio.clock.advance(8)
        return await submit(*arguments)

    async def put_slowly(*arguments: Any, **options: Any) -> Any:
        studio.clock.advance(1.5)
        return await put(*arguments, **options)

    monkeypatch.setattr(provider, "submit", submit_slowly)
    monkeypatch.setattr(storage, "put", put_slowly)
    run_id = await studio.make(3, advance=True)
    for job in await studio.images():
        await studio.run(job)
    assert (await studio.show(run_id))["status"] == "completed"
    rows = await studio.sql("SELECT provider_ms, storage_ms, total_ms FROM image_jobs")
    assert rows == [(8_000, 1_500, 9_500)] * 3


async def test_advancing_again_changes_nothing(studio: SceneStudio) -> None:
    run_id = await studio.make(5)
    await studio.advance(run_id)
    again = await studio.advance(run_id)
    assert (again["action"], again["queued"]) == ("images_in_progress", 0)
    await studio.finish(run_id)
    over = await studio.advance(run_id)
    assert (over["action"], over["queued"], over["run"]["status"]) == ("run_completed", 0, "completed")
    assert len(await studio.sql("SELECT id FROM image_jobs")) == 5
    assert await studio.audit() == []


async def test_two_advances_at_once_queue_each_scene_once(studio: SceneStudio) -> None:
    run_id = await studio.make(10)
    answers = await asyncio.gather(*(studio.advance(run_id) for _ in range(8)))
    assert sorted(answer["queued"] for answer in answers) == [0] * 7 + [10]
    assert await studio.sql("SELECT count(*), count(DISTINCT position) FROM image_jobs") == [(10, 10)]
    assert await studio.balance() == (CREDITS - 10 * PRICE, 10 * PRICE)
    assert (await studio.jobs()).count("scenes.image") == 10


async def test_an_advance_and_a_cancel_at_once_leave_nothing_under_way(studio: SceneStudio) -> None:
    for _ in range(5):
        run_id = await studio.make(10)
        wanted = [studio.advance(run_id), studio.scenes.cancel("ada", run_id), studio.advance(run_id)]
        answers = await asyncio.gather(*wanted, return_exceptions=True)
        assert all(isinstance(one, dict | StateConflict) for one in answers), answers
        assert set(await studio.states(run_id)) == {"cancelled"}
    assert "scenes.image" not in await studio.jobs()
    assert await studio.balance() == (CREDITS, 0)
    assert await studio.audit() == []


async def test_images_that_end_at_the_same_moment_tell_of_the_end_once(studio: SceneStudio) -> None:
    for _ in range(5):
        run_id = await studio.make(5, advance=True)
        done = [(job, await studio.engine.kinds[job.kind].handler(job)) for job in await studio.images()]
        ends = [studio.database.run(finish, studio.engine, job, outcome, studio.worker) for job, outcome in done]
        assert await asyncio.gather(*ends) == [True] * 5
        assert (await studio.told(run_id)).count(("run.finished", None)) == 1
        assert (await studio.show(run_id))["status"] == "completed"


async def test_without_credits_for_all_nothing_is_queued(studio: SceneStudio) -> None:
    await studio.grant("bob", 2 * PRICE)
    run_id = await studio.make(3, user="bob")
    with pytest.raises(InsufficientCredits) as refused:
        await studio.advance(run_id, user="bob")
    assert refused.value.facts == {"balance": 2 * PRICE, "price": 3 * PRICE}
    assert await studio.balance("bob") == (2 * PRICE, 0)
    assert await studio.sql("SELECT id FROM image_jobs") == []
    assert await studio.jobs() == []
    assert (await studio.show(run_id, "bob"))["status"] == "created"


async def test_a_cancelled_run_gives_back_what_it_held(studio: SceneStudio) -> None:
    run_id = await studio.make(5, advance=True)
    first, *_others = await studio.images()
    await studio.run(first)
    cancelled = await studio.scenes.cancel("ada", run_id)
    assert (cancelled["status"], cancelled["total"]["completed"], cancelled["total"]["cancelled"]) == (
        "cancelled",
        1,
        4,
    )
    assert await studio.balance() == (CREDITS - PRICE, 0)
    assert [kind for kind in await studio.jobs() if kind == "scenes.image"] == []
    assert await studio.scenes.cancel("ada", run_id) == cancelled | {"scenes": (await studio.show(run_id))["scenes"]}
    with pytest.raises(StateConflict, match="cancelled"):
        await studio.advance(run_id)
    with pytest.raises(StateConflict, match="cancelled"):
        await studio.scenes.regenerate("ada", run_id, 1, None, "request-3")
    assert [kind for kind, _scene in await studio.told(run_id)].count("run.cancelled") == 1
    assert await studio.audit() == []


async def test_what_a_worker_still_makes_of_a_cancelled_run_is_refused(studio: SceneStudio) -> None:
    run_id = await studio.make(3, advance=True)
    jobs = await studio.images()
    await studio.scenes.cancel("ada", run_id)
    for job in jobs:
        assert not await studio.run(job)
    assert await studio.states(run_id) == ["cancelled"] * 3
    assert studio.sandbox.calls(route="submit") == []
    assert await studio.sql("SELECT id FROM assets") == []
    assert await studio.balance() == (CREDITS, 0)


async def test_a_deleted_run_takes_its_images_with_it(studio: SceneStudio) -> None:
    run_id = await studio.make(3, advance=True)
    with pytest.raises(StateConflict, match="generating"):
        await studio.database.run(delete_run, studio.engine, "ada", run_id)
    await studio.finish(run_id)
    objects = studio.settings.data_dir / "objects"
    assert [file for file in objects.rglob("*") if file.is_file()]
    await studio.database.run(delete_run, studio.engine, "ada", run_id)
    with pytest.raises(NotFound):
        await studio.show(run_id)
    for table in ("scene_runs", "scenes", "image_jobs", "assets"):
        assert await studio.sql(f"SELECT count(*) FROM {table}") == [(0,)]
    while await studio.jobs():
        await studio.step()
        studio.clock.advance(5)
    assert [file for file in objects.rglob("*") if file.is_file()] == []
    # What was paid was paid.
    assert await studio.balance() == (CREDITS - 3 * PRICE, 0)
    assert (await studio.told(run_id))[-1] == ("run.deleted", None)
    assert await studio.audit() == []


async def test_whoever_leaves_leaves_no_run_behind(studio: SceneStudio) -> None:
    done = await studio.make(3, advance=True)
    await studio.finish(done)
    await studio.make(3, advance=True)
    await studio.grant("bob", 100)
    bobs = await studio.make(3, user="bob")
    await studio.database.run(studio.context.get(AccountDeletion).begin, studio.engine, "ada")
    studio.clock.advance(1)
    while await studio.jobs():
        await studio.step()
        studio.clock.advance(31)
    assert [str(run_id) for (run_id,) in await studio.sql("SELECT id FROM scene_runs")] == [bobs]
    assert await studio.sql("SELECT count(*) FROM image_jobs") == [(0,)]
    assert await studio.sql("SELECT count(*) FROM assets") == [(0,)]
    assert (await studio.balance())[1] == 0
    assert await studio.audit() == []


async def test_another_users_run_does_not_exist(studio: SceneStudio) -> None:
    run_id = await studio.make(3)
    for asked in (
        studio.show(run_id, "bob"),
        studio.advance(run_id, user="bob"),
        studio.scenes.cancel("bob", run_id),
        studio.database.run(delete_run, studio.engine, "bob", run_id),
        studio.scenes.regenerate("bob", run_id, 1, None, "request-3"),
    ):
        with pytest.raises(NotFound, match="There is no run"):
            await asked
    assert await studio.scenes.page("bob", None, 10) == []


async def test_lists_show_the_newest_first(studio: SceneStudio) -> None:
    ids = [await studio.make(3) for _ in range(4)]
    page = await studio.scenes.page("ada", None, 3)
    assert [one["id"] for one in page] == ids[:0:-1]
    assert [one["id"] for one in await studio.scenes.page("ada", page[-1]["id"], 3)] == ids[:1]


async def test_a_run_that_is_advanced_while_it_is_cancelled_waits_in_one_order(
    studio: SceneStudio, deadlocks: list[BaseException]
) -> None:
    """Advancing has locked the run and wants the balance, to which cancelling returns credits."""
    if studio.database.dialect == SQLITE:
        pytest.skip("SQLite has one writer at a time")
    run_id = await studio.make(3)
    await studio.advance(run_id)
    [one, *_others] = await studio.images()
    assert await studio.database.run(finish, studio.engine, one, Fail("NO_RESULT", "nothing"), studio.worker)
    order = ImageOrder(studio.scenes.models.find(MODEL), LANE, 100, None)

    async def advance(stand_still: Callable[[], None]) -> None:
        def write(tx: Transaction) -> None:
            get_run(tx, USER, run_id, lock=True)
            stand_still()
            advance_run(tx, studio.engine, USER, run_id, order, failed=True)

        await studio.database.run(write)

    await meet(studio.database, advance, lambda: studio.scenes.cancel(USER, run_id))
    assert deadlocks == []
    run = await studio.show(run_id)
    assert (run["status"], run["total"]["queued"]) == ("cancelled", 0)
    assert await studio.balance() == (CREDITS, 0)
    assert await studio.audit() == []
