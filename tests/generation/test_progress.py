"""What is said of a task before its end: how far it is, its place in the queue, when it is tried again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from longtake.capabilities.generation import outlook
from longtake.capabilities.generation.outlook import Estimates
from longtake.capabilities.generation.progress import progress
from longtake.errors import NotFound
from tests.generation.studio import USER

if TYPE_CHECKING:
    from longtake import Transaction
    from tests.generation.studio import Studio

#: The JavaScript client is held to the same file.
CASES = json.loads((Path(__file__).parent.parent / "progress_cases.json").read_text(encoding="utf-8"))
MEMBERS = ("estimate", "usual", "queue", "retry")
SECONDS = st.floats(0, 1e6)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['elapsed']}-{case['median']}-{case['provider']}")
def test_the_formula_gives_what_the_shared_cases_say(case: dict[str, Any]) -> None:
    found = progress(case["elapsed"], case["median"], case["p95"], case["provider"])
    assert found.fraction == pytest.approx(case["fraction"], abs=1e-6)
    assert found.seconds_left == pytest.approx(case["seconds_left"], abs=1e-6)
    assert (found.based_on, found.late) == (case["based_on"], case["late"])


@given(st.lists(SECONDS, min_size=2, max_size=2), st.lists(SECONDS, min_size=2, max_size=2))
def test_an_estimate_never_goes_back_and_never_reaches_the_whole(moments: list[float], runs: list[float]) -> None:
    (median, p95), (earlier, later) = sorted(runs), sorted(moments)
    before, after = progress(earlier, median, p95, None), progress(later, median, p95, None)
    assert before.fraction is not None
    assert after.fraction is not None
    assert 0 <= before.fraction <= after.fraction < 1
    assert after.late >= before.late


async def shown(studio: Studio, task_id: str) -> dict[str, Any]:
    return await studio.generation.show(USER, task_id)


async def trouble_events(studio: Studio, task_id: str) -> list[dict[str, Any]]:
    question = "SELECT data FROM events WHERE subject = :task AND type = 'task.trouble' ORDER BY sequence"
    found = await studio.sql(question, task=task_id)
    return [json.loads(row[0]) if isinstance(row[0], str) else row[0] for row in found]


async def test_every_place_that_shows_a_task_shows_the_same_members(studio: Studio) -> None:
    answer = await studio.ask("a fox [never]")
    task_id = answer.body["id"]
    one = await shown(studio, task_id)
    [pending] = await studio.generation.pending(USER)
    assert list(answer.body) == list(one) == list(pending)
    assert {name: answer.body[name] for name in MEMBERS} == {name: one[name] for name in MEMBERS}
    assert one["queue"] == {"position": 1, "ahead": 0, "more": False}
    assert one["estimate"] == {"fraction": None, "seconds_left": None, "based_on": None, "late": False}
    cancelled = await studio.generation.cancel(USER, task_id)
    assert {name: cancelled[name] for name in MEMBERS} == dict.fromkeys(MEMBERS)
    assert {name: (await shown(studio, task_id))[name] for name in MEMBERS} == dict.fromkeys(MEMBERS)


async def test_past_runs_tell_how_far_a_task_is(studio: Studio) -> None:
    studio.clock.advance(60)
    for number in range(3):
        first = await studio.submit(f"fox {number}")
        await studio.follow(first)
    studio.clock.advance(60)
    task_id = await studio.submit("a fox [never]")
    await studio.step()
    task = await shown(studio, task_id)
    usual = task["usual"]
    assert (task["status"], task["queue"], usual["runs"]) == ("running", None, 3)
    studio.clock.advance(usual["median_seconds"] / 2)
    half = (await shown(studio, task_id))["estimate"]
    assert half["based_on"] == "history"
    assert half["fraction"] == pytest.approx(0.45, abs=0.01)
    assert half["seconds_left"] == pytest.approx(usual["median_seconds"] / 2, abs=0.1)
    studio.clock.advance(usual["p95_seconds"] * 3)
    late = (await shown(studio, task_id))["estimate"]
    assert late["late"]
    assert late["fraction"] < 1


async def test_a_provider_that_tells_is_believed(studio: Studio) -> None:
    task_id = await studio.submit("a fox [never]")
    await studio.step()
    studio.clock.advance(10)

    def tell(tx: Transaction) -> None:
        tx.execute(text("UPDATE tasks SET progress = 0.25 WHERE id = :id"), {"id": task_id})

    await studio.database.run(tell)
    estimate = (await shown(studio, task_id))["estimate"]
    assert estimate == {"fraction": 0.25, "seconds_left": 30.0, "based_on": "provider", "late": False}


async def test_the_place_in_the_queue_is_the_order_in_which_workers_claim(studio: Studio) -> None:
    task_ids = []
    for number in range(4):
        task_ids.append(await studio.submit(f"fox {number}"))
        studio.clock.advance(2)
    # Another lane has a queue of its own.
    other = await studio.submit("a fox", model="gemini-flash-image")
    assert [(await shown(studio, one))["queue"]["position"] for one in task_ids] == [1, 2, 3, 4]
    assert (await shown(studio, other))["queue"]["position"] == 1
    claimed = sorted(await studio.claim(), key=lambda job: job.due_at)
    assert [job.key for job in claimed if job.lane == "kie.submit"] == task_ids
    assert (await shown(studio, task_ids[0]))["queue"] is None


async def test_a_new_task_is_told_how_many_are_before_it(studio: Studio) -> None:
    for number in range(4):
        # Within the second of the last look and after it.
        studio.clock.advance(0.7)
        answer = await studio.ask(f"fox {number}")
        assert answer.body["queue"] == {"position": number + 1, "ahead": number, "more": False}


async def test_the_same_key_gets_the_same_place_again(studio: Studio) -> None:
    first = await studio.ask(key="fox-1")
    studio.clock.advance(2)
    await studio.submit("another fox")
    again = await studio.ask(key="fox-1")
    assert (again.replayed, again.body) == (True, first.body)


async def test_a_long_queue_is_told_as_at_least(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlook, "QUEUE_LIMIT", 3)
    task_ids = []
    for number in range(5):
        task_ids.append(await studio.submit(f"fox {number}"))
        studio.clock.advance(0.1)
    studio.clock.advance(2)
    places = [task["queue"] for task in await studio.generation.pending(USER)]
    assert [(one["ahead"], one["more"]) for one in places] == [
        (0, False), (1, False), (2, False), (3, True), (3, True),
    ]  # fmt: skip


async def test_many_who_look_within_a_second_cost_one_look_at_the_lane(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = await studio.submit()
    studio.clock.advance(5)
    looks: list[str] = []
    real = outlook.read_queues

    def count(tx: Transaction, lanes: frozenset[str]) -> dict[str, list[str]]:
        looks.extend(lanes)
        return real(tx, lanes)

    monkeypatch.setattr("longtake.capabilities.generation.outlook.read_queues", count)
    for _ in range(10):
        await shown(studio, task_id)
    assert looks == ["kie.submit"]
    studio.clock.advance(2)
    await shown(studio, task_id)
    assert looks == ["kie.submit"] * 2


async def test_a_submit_that_is_refused_says_when_it_is_tried_again_and_why(studio: Studio) -> None:
    studio.sandbox.faults("status", status=429, retry_after=7, route="submit", times=2)
    task_id = await studio.submit()
    await studio.step()
    task = await shown(studio, task_id)
    words = "The provider is not accepting requests for now."
    assert task["retry"] == {
        "attempt": 2,
        "of": None,
        "at": "2026-01-01T12:00:07Z",
        "code": "PROVIDER_BUSY",
        "message": words,
    }
    assert task["queue"] is None
    studio.clock.advance(8)
    await studio.step()
    assert (await shown(studio, task_id))["retry"]["attempt"] == 3
    told = await trouble_events(studio, task_id)
    assert [one["retry"]["attempt"] for one in told] == [2, 3]
    assert told[0] == {
        "status": "pending",
        "trouble": {"code": "PROVIDER_BUSY", "message": words},
        "retry": {"attempt": 2, "of": None, "at": "2026-01-01T12:00:07Z"},
    }
    studio.clock.advance(8)
    await studio.step()
    running = await shown(studio, task_id)
    assert (running["status"], running["retry"], running["trouble"]) == ("running", None, None)


async def test_trouble_with_polls_is_told_once_for_each_try_with_its_number_and_time(studio: Studio) -> None:
    task_id = await studio.submit("a fox [never]")
    await studio.step()
    rule = studio.sandbox.faults("status", status=503, route="query", times=3)
    seen = []
    for _ in range(6):
        studio.clock.advance(61)
        await studio.step()
        if retry := (await shown(studio, task_id))["retry"]:
            seen.append({name: retry[name] for name in ("attempt", "of", "at")})
    assert studio.sandbox.applied(rule) == 3
    told = await trouble_events(studio, task_id)
    assert [one["retry"] for one in told] == seen, "the stream says what the task says"
    assert [one["attempt"] for one in seen] == [2, 3, 4]
    assert {(one["status"], one["trouble"]["code"]) for one in told} == {("running", "PROVIDER_UNAVAILABLE")}
    assert (await studio.task(task_id)).trouble is None
    assert "127.0.0.1" not in json.dumps(told)
    assert "task.progress" in await studio.events(task_id)


async def test_our_own_mistake_has_a_last_attempt_and_words_of_its_own(studio: Studio) -> None:
    task_id = await studio.submit()

    def fail(tx: Transaction) -> None:
        change = "UPDATE jobs SET attempt = 2, error = :error WHERE key = :id"
        error = '{"code": "CRASHED", "message": "at http://10.0.0.1/secret"}'
        tx.execute(text(change), {"id": task_id, "error": error})

    await studio.database.run(fail)
    retry = (await shown(studio, task_id))["retry"]
    assert (retry["attempt"], retry["of"], retry["code"]) == (3, 30, "CRASHED")
    assert "10.0.0.1" not in retry["message"]


async def test_the_start_is_told_with_its_time(studio: Studio) -> None:
    task_id = await studio.submit("a fox [never]")
    await studio.step()
    question = "SELECT data FROM events WHERE subject = :task AND type = 'task.running'"
    [(data,)] = await studio.sql(question, task=task_id)
    told = json.loads(data) if isinstance(data, str) else data
    assert told == {"status": "running", "started_at": (await shown(studio, task_id))["started_at"]}


async def test_nobody_hears_of_anothers_place(studio: Studio) -> None:
    await studio.grant("bob", 100)
    bobs = str((await studio.ask("a fox", user="bob")).body["id"])
    with pytest.raises(NotFound):
        await shown(studio, bobs)
    assert await studio.generation.pending(USER) == []


async def test_many_who_ask_at_once_read_past_runs_once_and_none_of_them_misses_them(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    await studio.follow(await studio.submit())
    studio.clock.advance(60)
    fresh = Estimates(studio.database, studio.clock, ["nano-banana"])
    reads: list[list[str]] = []
    real = outlook._read_durations

    def count(tx: Transaction, models: list[str]) -> dict[str, outlook.Estimate]:
        reads.append(models)
        return real(tx, models)

    monkeypatch.setattr(outlook, "_read_durations", count)
    found = await asyncio.gather(*(fresh.all() for _ in range(20)))
    assert {one["nano-banana"].runs for one in found} == {1}
    assert len(reads) == 1
