"""The lane of an account: how far apart calls are."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest

from longtake import Done
from longtake.capabilities.scenes.models import ON_THE_WAY_SECONDS, scene_lane
from longtake.engine.lanes import LaneState, permits
from tests.scenes.stage import LANE
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from longtake.engine.lanes import Lane
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
    # The earlier call as late and as long on its way as it may be, the later one at once.
    latest = lane.permit_lifetime + ON_THE_WAY_SECONDS
    assert all(later - (earlier + latest) >= apart - 1e-6 for earlier, later in itertools.pairwise(given))


@pytest.mark.parametrize("per_minute", [61, 300, 1_000])
def test_fast_accounts_are_counted_by_the_minute(per_minute: int) -> None:
    lane = scene_lane("gemini", per_minute, 100)
    assert (lane.spacing, lane.max_running) == (None, 100)
    assert lane.rate is not None
    count, seconds = lane.rate
    assert (count, seconds) == (per_minute, 60.0 + ON_THE_WAY_SECONDS)


async def test_an_image_that_is_too_late_for_its_permit_has_written_nothing(studio: SceneStudio) -> None:
    async def too_late() -> None:
        raise asyncio.CancelledError

    run_id = await studio.make(3, advance=True)
    for job in await studio.images():
        job.permit_waiter = too_late
        with pytest.raises(asyncio.CancelledError):
            await studio.engine.kinds[job.kind].handler(job)
    assert await studio.sql("SELECT DISTINCT status, attempt FROM image_jobs") == [("queued", 0)]
    assert "scene.processing" not in [kind for kind, _scene in await studio.told(run_id)]
    assert studio.sandbox.calls(route="submit") == []


async def test_the_provider_is_asked_before_anything_is_written(
    studio: SceneStudio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write takes a time that varies: between the permit and the call it would bring two calls closer together."""
    await studio.make(3, advance=True)
    job, asked, run = (await studio.images())[0], asyncio.Event(), studio.database.run
    provider = studio.context.providers["gemini_image"]
    submit = provider.submit

    async def ask(request: Any) -> Any:
        asked.set()
        return await submit(request)

    async def write_once_asked(function: Any, *arguments: Any) -> Any:
        await asyncio.wait_for(asked.wait(), PATIENCE_SECONDS)
        return await run(function, *arguments)

    monkeypatch.setattr(provider, "submit", ask)
    monkeypatch.setattr(studio.database, "run", write_once_asked)
    outcome = await studio.engine.kinds[job.kind].handler(job)
    assert isinstance(outcome, Done)


async def test_by_default_one_at_a_time_and_three_seconds_apart(studio: SceneStudio) -> None:
    declared = studio.engine.lanes[LANE]
    assert (declared.max_running, declared.spacing) == (1, 3.0 + ON_THE_WAY_SECONDS)
