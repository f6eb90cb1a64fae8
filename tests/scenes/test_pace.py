"""The lane of an account: how far apart calls are, and what is done with a beginning that takes too long."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from longtake.capabilities.scenes import image_job
from longtake.capabilities.scenes.image_job import begin_image
from longtake.capabilities.scenes.models import BEGIN_SECONDS, scene_lane
from longtake.engine.lanes import LaneState, permits
from longtake.engine.outcomes import Snooze
from longtake.engine.verdicts import judge
from tests.scenes.stage import LANE

if TYPE_CHECKING:
    from longtake import Job, Transaction
    from longtake.capabilities.scenes.image_job import StartedImage
    from longtake.engine.lanes import Lane
    from longtake.engine.verdicts import Verdict
    from tests.scenes.stage import SceneStudio


def starts(lane: Lane, seconds: float) -> list[float]:
    """Return when the lane permits starts, if somebody asks all the time and nothing else holds them back."""
    state, now, found = LaneState(), 0.0, []
    while now < seconds:
        given, state = permits(lane, state, 0, 1)
        found += [now + one for one in given]
        step = 0.01
        arrival, spaced = (None if one is None else one - step for one in (state.arrival, state.spaced))
        state, now = LaneState(arrival, spaced), now + step
    return found


@pytest.mark.parametrize(("per_minute", "apart"), [(1, 60.0), (15, 4.0), (20, 3.0), (60, 1.0)])
def test_calls_are_never_closer_than_a_minute_divided_by_their_number(per_minute: int, apart: float) -> None:
    lane = scene_lane("gemini", per_minute, 1)
    given = starts(lane, 3 * apart + 5)
    assert len(given) >= 3
    # The earlier call as late as it may be, the later one at once.
    latest = lane.permit_lifetime + BEGIN_SECONDS
    assert all(later - (earlier + latest) >= apart - 1e-6 for earlier, later in itertools.pairwise(given))


@pytest.mark.parametrize("per_minute", [61, 300, 1_000])
def test_fast_accounts_are_counted_by_the_minute(per_minute: int) -> None:
    lane = scene_lane("gemini", per_minute, 100)
    assert (lane.spacing, lane.max_running) == (None, 100)
    assert lane.rate is not None
    count, seconds = lane.rate
    assert (count, seconds) == (per_minute, 60.0 + BEGIN_SECONDS)


async def test_by_default_one_at_a_time_and_three_seconds_apart(studio: SceneStudio) -> None:
    declared = studio.engine.lanes[LANE]
    assert (declared.max_running, declared.spacing) == (1, 3.0 + BEGIN_SECONDS)


async def test_a_beginning_that_takes_too_long_is_given_back_unspent(
    studio: SceneStudio, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(tx: Transaction, job: Job, image_id: str, attempt: int) -> StartedImage | None:
        studio.clock._monotonic += BEGIN_SECONDS + 0.01
        return begin_image(tx, job, image_id, attempt)

    run_id = await studio.make(3, advance=True)
    jobs = await studio.images()
    monkeypatch.setattr(image_job, "begin_image", slowly)
    for job in jobs:
        with capture_logs() as log:
            outcome = await studio.engine.kinds[job.kind].handler(job)
        # Not a lapsed permit, which the worker itself gives back.
        assert [(one["action"], one["job_id"], one["lane"]) for one in log] == [("late", job.id, LANE)]
        assert isinstance(outcome, Snooze)
        assert outcome.seconds == 0
        await studio.database.run(studio.engine.finish, [_verdict(studio, job, outcome)])
    assert studio.sandbox.calls(route="submit") == []
    monkeypatch.undo()
    run = await studio.finish(run_id)
    assert (run["status"], [scene["attempt"] for scene in run["scenes"]]) == ("completed", [1, 1, 1])
    assert "scene.retrying" not in [kind for kind, _scene in await studio.told(run_id)]


def _verdict(studio: SceneStudio, job: Job, outcome: Snooze) -> Verdict:
    return judge(studio.engine.kinds[job.kind], job, outcome, studio.worker, studio.engine.random)
