"""Figures with their targets, and the alerts that follow from them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import insert, update

from longtake.capabilities.generation import health
from longtake.capabilities.generation.health import generation_figures, read_unpolled
from longtake.capabilities.generation.tables import tasks
from longtake.clock import new_id
from longtake.engine.lane_store import pause_lane
from tests.generation.studio import USER
from tests.operators import perform

if TYPE_CHECKING:
    from datetime import datetime

    from longtake import Transaction
    from tests.generation.studio import Studio


def a_task(status: str, ended_at: datetime | None, took: float = 10.0, **other: Any) -> dict[str, Any]:
    """A row as following leaves it: accepted after five seconds, and ended so many later."""
    task_id = new_id()
    begun = (ended_at or other.pop("now")) - timedelta(seconds=took)
    return {
        "id": task_id, "user_id": USER, "type": "image", "model": "nano-banana", "provider": "kie", "prompt": "a fox",
        "parameters": {}, "references": [], "price": 4, "credits_held": 4, "credits_refunded": 0, "reference": task_id,
        "created_at": begun - timedelta(seconds=5), "status": status, "needs_review": False, "poll_count": 1,
        "last_polled_at": None, "started_at": begun, "deadline_at": begun + timedelta(hours=9), "ended_at": ended_at,
        **other,
    }  # fmt: skip


async def fill(studio: Studio, rows: list[dict[str, Any]]) -> None:
    def write(tx: Transaction) -> None:
        tx.execute(insert(tasks), rows)

    await studio.database.run(write)


async def look(studio: Studio, hours: float = 24.0) -> dict[str, Any]:
    return await studio.database.read(generation_figures, hours)


async def test_nothing_has_no_figures_and_misses_no_target(studio: Studio) -> None:
    found = await look(studio)
    assert [(one["type"], one["success_rate"], one["success_met"]) for one in found["types"]] == [
        ("image", None, None),
        ("video", None, None),
    ]
    assert (found["poll_delay"]["met"], found["unfinished"]) == (None, {"pending": 0, "running": 0})


async def test_rates_and_times_are_by_type_and_cancelled_tasks_do_not_count(studio: Studio) -> None:
    now = studio.clock.now() - timedelta(minutes=1)
    rows = [a_task("completed", now, took=took) for took in range(1, 101)]
    rows += [a_task("failed", now, took=1000) for _ in range(5)] + [a_task("cancelled", now) for _ in range(50)]
    rows += [a_task("completed", now, took=400, type="video", model="veo3-fast")]
    # A provider that answers with the file itself has no moment of acceptance: the whole time counts.
    rows += [a_task("completed", now, took=95, type="video", model="veo3-fast", started_at=None)]
    # Yesterday's are not among today's.
    rows += [a_task("failed", now - timedelta(hours=24)) for _ in range(100)]
    await fill(studio, rows)
    image, video = (await look(studio))["types"]
    assert (image["completed"], image["failed"], image["cancelled"]) == (100, 5, 50)
    assert image["success_rate"] == pytest.approx(100 / 105, abs=1e-4)
    assert image["success_met"] is True
    assert (image["p95_seconds"], image["mean_met"]) == (95.0, True)
    assert image["mean_seconds"] == pytest.approx(50.5, abs=0.01)
    assert (video["p95_seconds"], video["mean_met"]) == (400.0, True)
    assert video["mean_seconds"] == pytest.approx(250, abs=0.01)
    assert (await look(studio, 48))["types"][0]["success_met"] is False


async def test_the_poll_delay_is_that_of_running_tasks(studio: Studio) -> None:
    now = studio.clock.now()
    ago = [now - timedelta(seconds=seconds) for seconds in (10, 50)]
    rows = [a_task("running", None, now=now, last_polled_at=moment) for moment in ago]
    # Accepted three minutes ago, and not asked about yet.
    rows.append(a_task("running", None, took=180, now=now, last_polled_at=None))
    rows.append(a_task("pending", None, now=now, started_at=None))
    await fill(studio, rows)
    found = await look(studio)
    assert found["poll_delay"] == {
        "running": 3, "mean_seconds": 80.0, "max_seconds": 180.0, "target": 60.0, "met": False,
    }  # fmt: skip
    assert found["unfinished"] == {"pending": 1, "running": 3}


async def test_of_a_busy_day_the_newest_are_counted(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "ENDED_LIMIT", 10)
    now = studio.clock.now()
    await fill(studio, [a_task("failed", now - timedelta(hours=2)) for _ in range(30)])
    await fill(studio, [a_task("completed", now - timedelta(hours=1)) for _ in range(10)])
    found = await look(studio)
    assert (found["types"][0]["success_rate"], found["counted"], found["counted_is_more"]) == (1.0, 10, True)


async def test_exactly_as_many_as_are_counted_are_all(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "ENDED_LIMIT", 10)
    now = studio.clock.now()
    await fill(studio, [a_task("completed", now - timedelta(hours=1)) for _ in range(10)])
    await fill(studio, [a_task("completed", now - timedelta(hours=25))])
    found = await look(studio)
    assert (found["counted"], found["counted_is_more"]) == (10, False)
    assert (await look(studio, 48))["counted_is_more"] is True


async def test_operators_ask_for_figures_of_as_many_hours_as_they_like(studio: Studio) -> None:
    await fill(studio, [a_task("completed", studio.clock.now() - timedelta(hours=3))])
    for hours, completed in ((2, 0), (4, 1)):
        found = await perform(studio.engine, "figures.generation", {"hours": hours})
        assert found["types"][0]["completed"] == completed


async def check(studio: Studio) -> None:
    """Let a minute pass, in which the check runs once."""
    studio.clock.advance(60)
    kinds = await studio.step()
    assert kinds.count("generation.check") == 1


async def alerts(studio: Studio, code: str) -> list[tuple[str, str, str]]:
    question = "SELECT subject, state, message FROM alerts WHERE code = :code ORDER BY first_at"
    return [(row[0], row[1], row[2]) for row in await studio.sql(question, code=code)]


@pytest.mark.parametrize(("failed", "completed", "raised"), [(3, 17, True), (2, 18, False), (3, 16, False)])
async def test_more_than_a_tenth_of_enough_tasks_failing_is_an_alert(
    studio: Studio, failed: int, completed: int, raised: bool
) -> None:
    now = studio.clock.now()
    rows = [a_task("failed", now) for _ in range(failed)] + [a_task("completed", now) for _ in range(completed)]
    rows += [a_task("cancelled", now) for _ in range(20)]
    await fill(studio, rows)
    await check(studio)
    found = await alerts(studio, "FAILURE_RATE_HIGH")
    assert [(subject, state) for subject, state, _message in found] == ([("image", "open")] if raised else [])


async def test_a_high_rate_is_told_once_and_resolved_by_itself(studio: Studio) -> None:
    now = studio.clock.now()
    await fill(studio, [a_task("failed", now) for _ in range(10)] + [a_task("completed", now) for _ in range(15)])
    for _ in range(3):
        await check(studio)
    [(subject, state, message)] = await alerts(studio, "FAILURE_RATE_HIGH")
    assert (subject, state) == ("image", "open")
    assert message.startswith("10 of 25 image tasks failed in the last 24 hours (40.0 %).")
    assert (await studio.sql("SELECT count(*) FROM events WHERE type = 'alert.raised'"))[0][0] == 1
    await fill(studio, [a_task("completed", studio.clock.now()) for _ in range(200)])
    await check(studio)
    assert [one[1] for one in await alerts(studio, "FAILURE_RATE_HIGH")] == ["resolved"]


async def test_a_task_nobody_asks_about_is_an_alert_that_names_the_paused_lane(studio: Studio) -> None:
    task_id = await studio.submit("a fox [never]", model="kling-2.6")
    await studio.step()
    await studio.database.run(pause_lane, "kie.query", "for the test")
    for _ in range(4):
        await check(studio)
    assert await alerts(studio, "TASKS_NOT_POLLED") == []
    for _ in range(2):
        await check(studio)
    [(_subject, state, message)] = await alerts(studio, "TASKS_NOT_POLLED")
    assert state == "open"
    assert "1 running tasks (kie)" in message
    assert "Paused: kie.query" in message

    def ask(tx: Transaction) -> None:
        tx.execute(update(tasks).where(tasks.c.id == task_id).values(last_polled_at=studio.clock.now()))

    await studio.database.run(ask)
    await check(studio)
    assert [one[1] for one in await alerts(studio, "TASKS_NOT_POLLED")] == ["resolved"]


async def test_a_task_that_waits_for_its_submit_is_not_missed(studio: Studio) -> None:
    await studio.database.run(pause_lane, "kie.submit", "for the test")
    await studio.submit()
    studio.clock.advance(1_000)
    assert await studio.database.read(read_unpolled, studio.context.providers) is None
