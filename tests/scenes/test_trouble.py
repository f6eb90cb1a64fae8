"""What goes wrong with a provider, a worker or the storage, and what a run makes of it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from sqlalchemy import text

from longtake.capabilities.scenes import image_job
from longtake.capabilities.scenes.image_job import TIME_LIMIT, note_processing
from longtake.engine.control import request_cancel
from longtake.engine.executor import RunningJob, StopReason, _stopped
from longtake.engine.lane_store import pause_lane
from longtake.engine.leases import find_workers, remove_dead_workers
from longtake.engine.maintenance import rescue
from longtake.engine.outcomes import release
from tests.engine.stage import claim_lane, finish, hire
from tests.generation.studio import CREDITS
from tests.scenes.stage import LANE, PRICE

if TYPE_CHECKING:
    from longtake import Job, Transaction
    from tests.scenes.stage import SceneStudio


async def test_two_of_ten_fail_and_eight_are_paid_for(studio: SceneStudio) -> None:
    prompts = [f"scene {number}" for number in range(1, 11)]
    prompts[2], prompts[6] = "a scene that is not allowed [blocked]", "one that the provider breaks at [fail]"
    run_id = await studio.make(prompts=prompts, advance=True)
    run = await studio.finish(run_id)
    assert (run["status"], run["total"]["completed"], run["total"]["failed"], run["total"]["percent"]) == (
        "partial", 8, 2, 80,
    )  # fmt: skip
    blocked, broken = run["scenes"][2], run["scenes"][6]
    assert (blocked["state"], blocked["attempt"], blocked["reason"]["code"]) == ("failed", 1, "PROHIBITED_CONTENT")
    assert (broken["state"], broken["attempt"], broken["reason"]["code"]) == ("failed", 3, "PROVIDER_UNAVAILABLE")
    assert all(scene["image_url"] is None for scene in (blocked, broken))
    assert await studio.balance() == (CREDITS - 8 * PRICE, 0)
    assert (await studio.told(run_id)).count(("run.finished", None)) == 1
    assert await studio.audit() == []


async def test_failed_scenes_are_queued_again_only_if_that_is_wanted(studio: SceneStudio) -> None:
    rule = studio.sandbox.faults("status", status=400, route="submit", prompt_contains="scene 2")
    run_id = await studio.make(3, advance=True)
    assert (await studio.finish(run_id))["status"] == "partial"
    assert (await studio.advance(run_id))["action"] == "nothing_to_queue"
    studio.sandbox.ask("DELETE", f"/_faults/{rule}")
    again = await studio.advance(run_id, failed=True)
    assert (again["action"], again["queued"]) == ("images_queued", 1)
    run = await studio.finish(run_id)
    assert (run["status"], run["scenes"][1]["reason"]) == ("completed", None)
    assert await studio.balance() == (CREDITS - 3 * PRICE, 0)
    assert await studio.sql("SELECT status FROM image_jobs WHERE position = 2 ORDER BY queued_at, id") == [
        ("failed",), ("completed",),
    ]  # fmt: skip
    assert await studio.audit() == []


async def test_an_image_of_old_stays_until_the_new_one_is_there(studio: SceneStudio) -> None:
    run_id = await studio.make(3, advance=True)
    before = (await studio.finish(run_id))["scenes"][1]
    shown = await studio.scenes.regenerate("ada", run_id, 2, "  other words  ", "request-3")
    assert (shown["status"], shown["credits"]) == ("generating", {"held": PRICE, "charged": 3 * PRICE})
    scene = shown["scenes"][1]
    assert (scene["state"], scene["prompt"], scene["asset_id"]) == ("queued", "other words", before["asset_id"])
    after = await studio.finish(run_id)
    assert after["status"] == "completed"
    assert after["scenes"][1]["asset_id"] not in {None, before["asset_id"]}
    assert studio.sandbox.calls(route="submit")[-1]["prompt"] == "other words"
    assert await studio.balance() == (CREDITS - 4 * PRICE, 0)
    assert await studio.audit() == []


async def test_a_new_image_that_fails_leaves_the_old_one(studio: SceneStudio) -> None:
    run_id = await studio.make(3, advance=True)
    before = (await studio.finish(run_id))["scenes"][0]
    await studio.scenes.regenerate("ada", run_id, 1, "what nobody may see [safety]", "request-3")
    run = await studio.finish(run_id)
    scene = run["scenes"][0]
    assert (scene["state"], scene["reason"]["code"]) == ("failed", "IMAGE_SAFETY")
    assert (scene["asset_id"], run["status"], run["total"]["percent"]) == (before["asset_id"], "completed", 100)
    assert await studio.balance() == (CREDITS - 3 * PRICE, 0)


async def test_a_failed_try_says_why_and_when_it_is_tried_again(studio: SceneStudio) -> None:
    studio.sandbox.faults("status", status=500, route="submit", prompt_contains="scene 1", times=1)
    run_id = await studio.make(3, advance=True)
    await studio.step()
    scene = (await studio.show(run_id))["scenes"][0]
    assert (scene["state"], scene["attempt"], scene["reason"]) == (
        "queued", 1, {"code": "PROVIDER_UNAVAILABLE", "message": "The provider could not make it."},
    )  # fmt: skip
    wait = (datetime.fromisoformat(scene["retry_at"]) - studio.clock.now()).total_seconds()
    assert 1 < wait < 10
    assert ("scene.retrying", 1) in await studio.told(run_id)
    run = await studio.finish(run_id)
    assert (run["status"], run["scenes"][0]["attempt"], run["scenes"][0]["reason"]) == ("completed", 2, None)


@pytest.mark.parametrize("fault", ["accept_then_drop", "garbage", "empty", "drop"])
async def test_an_answer_that_was_lost_is_asked_for_again(studio: SceneStudio, fault: str) -> None:
    studio.sandbox.faults(fault, route="submit", prompt_contains="scene 2", times=2)
    run_id = await studio.make(3, advance=True)
    run = await studio.finish(run_id)
    assert (run["status"], [scene["attempt"] for scene in run["scenes"]]) == ("completed", [1, 3, 1])
    assert await studio.balance() == (CREDITS - 3 * PRICE, 0)


async def test_a_429_slows_the_lane_and_is_no_try(studio: SceneStudio) -> None:
    await studio.limit_lane(max_running=1, spacing=3.0)
    studio.sandbox.faults("status", status=429, retry_delay="20s", route="submit", times=1)
    run_id = await studio.make(3, advance=True)
    await _step_lane(studio)
    run = await studio.show(run_id)
    assert run["held_back"]["code"] == "PROVIDER_BUSY"
    until = datetime.fromisoformat(run["held_back"]["until"])
    assert 19 <= (until - studio.clock.now()).total_seconds() <= 21
    assert [scene["attempt"] for scene in run["scenes"]] == [0, 0, 0]
    assert [scene["state"] for scene in run["scenes"]] == ["queued"] * 3
    lane = await studio.lane()
    assert (lane.state.factor(), round(lane.state.blocked or 0)) == (2.0, 20)
    assert await _step_lane(studio) == 0
    studio.clock.advance(21)
    for _ in range(3):
        assert await _step_lane(studio) == 1
        studio.clock.advance(7)
    run = await studio.show(run_id)
    assert (run["status"], [scene["attempt"] for scene in run["scenes"]]) == ("completed", [1, 1, 1])
    # A quiet minute later the lane is as fast as before.
    studio.clock.advance(60)
    assert (await studio.lane()).state.factor() == 1.0
    assert await studio.audit() == []


async def test_tries_are_counted_over_a_wait(studio: SceneStudio) -> None:
    studio.sandbox.faults(
        "status", status=429, retry_delay="5s", route="submit", prompt_contains="scene 1", skip=2, times=1
    )
    studio.sandbox.faults("status", status=500, route="submit", prompt_contains="scene 1")
    # The rule that was added first wins, and has its turn at the third call.
    run_id = await studio.make(3, advance=True)
    run = await studio.finish(run_id)
    scene = run["scenes"][0]
    assert (scene["state"], scene["attempt"], scene["reason"]["code"]) == ("failed", 3, "PROVIDER_UNAVAILABLE")
    statuses = [call["status"] for call in studio.sandbox.calls(route="submit") if "scene 1" in call["prompt"]]
    assert statuses == [500, 500, 429, 500]


async def test_a_quota_of_the_day_holds_all_back_and_says_so(studio: SceneStudio) -> None:
    quota = {"status": 429, "quota_id": "GenerateRequestsPerDayPerProjectPerModel"}
    studio.sandbox.faults("status", route="submit", times=1, **quota)
    await studio.limit_lane(max_running=1, spacing=3.0)
    run_id = await studio.make(3, advance=True)
    later_run = await studio.make(3, advance=True)
    await _step_lane(studio)
    wait = 0.0
    for one in (run_id, later_run):
        held = (await studio.show(one))["held_back"]
        assert (held["code"], held["message"]) == ("PROVIDER_QUOTA_SPENT", "The provider's quota for today is used up.")
        wait = (datetime.fromisoformat(held["until"]) - studio.clock.now()).total_seconds()
        assert wait > 3_600
    assert ("PROVIDER_QUOTA_SPENT", "open") in await studio.alerts()
    assert await _step_lane(studio) == 0
    studio.clock.advance(wait + 1)
    assert await _step_lane(studio) == 1
    assert (await studio.show(run_id))["held_back"] is None


async def test_a_key_that_is_refused_pauses_the_lane_until_somebody_mends_it(studio: SceneStudio) -> None:
    studio.sandbox.faults("status", status=401, route="submit", times=1)
    await studio.limit_lane(max_running=1, spacing=3.0)
    run_id = await studio.make(3, advance=True)
    await _step_lane(studio)
    run = await studio.show(run_id)
    assert (run["held_back"]["code"], run["held_back"]["until"]) == ("PROVIDER_UNAUTHORIZED", None)
    assert run["estimated_end_at"] is None
    assert (await studio.lane()).paused
    assert ("PROVIDER_UNAUTHORIZED", "open") in await studio.alerts()
    await studio.application._try_lanes_again()
    assert not (await studio.lane()).paused
    assert ("PROVIDER_UNAUTHORIZED", "resolved") in await studio.alerts()


async def test_what_an_operator_paused_is_told_without_their_words(studio: SceneStudio) -> None:
    run_id = await studio.make(3, advance=True)
    await studio.database.run(pause_lane, LANE, "the boss's orders")
    held = (await studio.show(run_id))["held_back"]
    assert held == {"code": "LANE_PAUSED", "message": "An operator has paused it.", "until": None}


async def test_a_provider_that_is_too_slow_costs_a_try(studio: SceneStudio) -> None:
    run_id = await studio.make(prompts=["one", "two [seconds=30]", "three"], advance=True)
    positions = {str(image): position for image, position in await studio.sql("SELECT id, position FROM image_jobs")}
    for job in await studio.images():
        # The others may take their time, on however busy a machine.
        if positions[str(job.key)] == 2:
            with patch.object(image_job, "PROVIDER_SECONDS", 0.2):
                await studio.run(job)
        else:
            await studio.run(job)
    run = await studio.show(run_id)
    assert [scene["state"] for scene in run["scenes"]] == ["completed", "queued", "completed"]
    assert run["scenes"][1]["reason"]["code"] == "PROVIDER_TIMEOUT"
    for _ in range(2):
        studio.clock.advance(31)
        [job] = await studio.images()
        with patch.object(image_job, "PROVIDER_SECONDS", 0.2):
            await studio.run(job)
    run = await studio.show(run_id)
    assert (run["status"], run["scenes"][1]["attempt"]) == ("partial", 3)
    assert await studio.balance() == (CREDITS - 2 * PRICE, 0)


async def test_after_sixty_seconds_in_a_workers_hands_it_goes_back(studio: SceneStudio) -> None:
    """The worker stops the handler at its time limit, which the engine's own tests prove; here is what comes of it."""
    run_id = await studio.make(3, advance=True)
    kind = studio.engine.kinds["scenes.image"]
    assert kind.time_limit == TIME_LIMIT == 60.0
    job = (await studio.images())[0]
    await _begin(studio, job)
    assert (await studio.states(run_id))[0] == "processing"
    stopped = RunningJob(job, kind, 0.0, 0.0, stop_reason=StopReason.TIME_LIMIT)
    outcome = _stopped(stopped)
    assert outcome is not None
    await studio.database.run(finish, studio.engine, job, outcome, studio.worker)
    scene = (await studio.show(run_id))["scenes"][0]
    assert (scene["state"], scene["reason"]["code"], scene["attempt"]) == ("queued", "TIME_LIMIT", 1)


async def test_a_dead_workers_images_wait_again(studio: SceneStudio) -> None:
    run_id = await studio.make(3, advance=True)
    for job in await studio.images():
        await _begin(studio, job)
    assert await studio.states(run_id) == ["processing"] * 3

    def bury_and_rescue(tx: Transaction) -> int:
        seen, _orphaned = find_workers(tx)
        remove_dead_workers(tx, seen)
        return rescue(tx, studio.engine)

    assert await studio.database.run(bury_and_rescue) == 3
    run = await studio.show(run_id)
    assert [(scene["state"], scene["reason"]["code"]) for scene in run["scenes"]] == [("queued", "CRASHED")] * 3
    studio.worker = await studio.database.run(hire)
    assert (await studio.finish(run_id))["status"] == "completed"
    assert await studio.balance() == (CREDITS - 3 * PRICE, 0)


async def test_what_a_stopped_worker_gave_back_is_shown_as_queued(studio: SceneStudio) -> None:
    run_id = await studio.make(3, advance=True)
    job = (await studio.images())[0]
    await _begin(studio, job)
    await studio.database.run(studio.engine.finish, [release(job, studio.worker)])
    assert await studio.sql("SELECT status FROM image_jobs WHERE position = 1") == [("processing",)]
    assert (await studio.states(run_id))[0] == "queued"
    assert dict(await studio.sql("SELECT status, jobs FROM image_job_queue")) == {"queued": 3}


async def test_an_operator_who_cancels_a_job_ends_its_image(studio: SceneStudio) -> None:
    run_id = await studio.make(3, advance=True)
    [(job_id,)] = await studio.sql(
        "SELECT jobs.id FROM jobs JOIN image_jobs ON jobs.key = CAST(image_jobs.id AS text) WHERE position = 3"
    )
    await studio.database.run(request_cancel, studio.engine, str(job_id))
    run = await studio.finish(run_id)
    assert (run["status"], run["total"]["cancelled"]) == ("partial", 1)
    assert await studio.balance() == (CREDITS - 2 * PRICE, 0)
    assert await studio.audit() == []


async def test_the_audit_sees_an_image_that_was_not_charged(studio: SceneStudio) -> None:
    run_id = await studio.make(3, advance=True)
    await studio.finish(run_id)

    def spoil(tx: Transaction) -> None:
        tx.execute(text("UPDATE image_jobs SET status = 'failed' WHERE position = 1"))
        tx.execute(text("UPDATE image_jobs SET status = 'queued', completed_at = NULL WHERE position = 2"))

    await studio.database.run(spoil)
    assert {finding.code for finding in await studio.audit()} == {"TASK_NOT_RELEASED", "TASK_WITHOUT_HOLD"}


async def _begin(studio: SceneStudio, job: Job) -> Any:
    return await studio.database.run(note_processing, job, str(job.key))


async def _step_lane(studio: SceneStudio) -> int:
    """Run what the lane permits now; return how many that were."""
    jobs = await studio.database.run(claim_lane, studio.engine, LANE, studio.worker)
    for job in jobs:
        await studio.run(job)
    return len(jobs)
