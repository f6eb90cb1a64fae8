from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from proofs.client.pages import load

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext

pytestmark = pytest.mark.asyncio(loop_scope="module")

CASES = Path(__file__).parents[2] / "tests" / "progress_cases.json"
AT = "2026-01-01T12:00:00Z"

#: Begins with a snapshot and applies steps: events, or facts that were asked for.
REDUCE = """async ({ snapshot, steps, now }) => {
    const { applyEvent, applyFact, fromSnapshot, wanted } = await import("/client/state.js");
    let state = fromSnapshot(snapshot, undefined, now);
    for (const step of steps) {
        if (step.snapshot) state = fromSnapshot(step.snapshot, state, now);
        else state = step.fact ? applyFact(state, step.fact) : applyEvent(state, step);
    }
    return { ...state, wanted: wanted(state) };
}"""


def snapshot(cursor: str = "0.10", **rest: Any) -> dict[str, Any]:
    empty = {"tasks": [], "recent": [], "tasks_more": False, "conversations": [], "conversations_next": None}
    figures = {"unread": 0, "credits": {"available": 10, "held": 0}}
    return {"cursor": cursor, "at": AT, "server_time": AT, "user_id": "ada", **empty, **figures, **rest}


def task(id_: str, status: str = "running", **rest: Any) -> dict[str, Any]:
    ended = AT if status in ("completed", "failed", "cancelled") else None
    return {"id": id_, "status": status, "created_at": AT, "ended_at": ended, "results": [], "prompt": "a fox", **rest}


def event(sequence: int, type_: str, subject: str = "t1", **data: Any) -> dict[str, Any]:
    return {"cursor": f"0.{sequence}", "type": type_, "at": AT, "subject": subject, "data": data}


async def reduce(context: BrowserContext, origin: str, begin: dict[str, Any], *steps: dict[str, Any]) -> Any:
    tab = await load(context, origin)
    return await tab.run(REDUCE, {"snapshot": begin, "steps": list(steps), "now": 0})


async def test_progress_is_what_the_server_says_it_is(context: BrowserContext, origin: str) -> None:
    cases = json.loads(CASES.read_text())
    tab = await load(context, origin)
    script = """async (cases) => {
        const { progress } = await import("/client/progress.js");
        return cases.map(({ elapsed, median, p95, provider }) => progress(elapsed, median, p95, provider));
    }"""
    for case, found in zip(cases, await tab.run(script, cases), strict=True):
        for name in ("fraction", "seconds_left"):
            assert found[name] == (None if case[name] is None else pytest.approx(case[name], abs=1e-6)), case
        assert (found["based_on"], found["late"]) == (case["based_on"], case["late"]), case


async def test_progress_goes_by_the_servers_clock(context: BrowserContext, origin: str) -> None:
    tab = await load(context, origin)
    running = task("t1", usual={"median_seconds": 10, "p95_seconds": 20, "runs": 9}, started_at=AT, progress=None)
    script = """async (task) => {
        const { progressOf } = await import("/client/progress.js");
        const at = Date.parse(task.started_at) + 5000;
        return [progressOf(task, at).fraction, progressOf({ ...task, ended_at: task.started_at }, at)];
    }"""
    assert await tab.run(script, running) == [pytest.approx(0.45), None]


async def test_a_tasks_life_is_followed(context: BrowserContext, origin: str) -> None:
    found = await reduce(
        context, origin, snapshot(),
        event(11, "task.created", type="image", model="nano-banana", prompt="a fox", status="pending"),
        event(12, "task.running", status="running"),
        event(13, "task.trouble", status="running", trouble={"code": "PROVIDER_BUSY", "message": "…"}, retry=None),
        event(14, "task.progress", status="running", progress=0.5),
    )  # fmt: skip
    shown = found["tasks"]["t1"]
    assert (shown["status"], shown["progress"], shown["trouble"], shown["prompt"]) == ("running", 0.5, None, "a fox")
    assert (found["cursor"], found["wanted"], found["recent"]) == ("0.14", ["task:t1"], [])


async def test_a_late_answer_to_the_submit_does_not_put_a_running_task_back(
    context: BrowserContext, origin: str
) -> None:
    running = event(11, "task.running", status="running", started_at=AT)
    view = task("t1", "pending", started_at=None, queue={"position": 1, "ahead": 0, "more": False})
    found = await reduce(context, origin, snapshot(), running, {"fact": {"key": "task:t1", "view": view}})
    shown = found["tasks"]["t1"]
    assert (shown["status"], shown["started_at"], shown["queue"], shown["prompt"]) == ("running", AT, None, "a fox")
    assert found["wanted"] == []


@pytest.mark.parametrize(("number", "asked"), [(2, ["task:t0", "task:t1"]), (5, ["everything"])])
async def test_what_waits_in_a_queue_is_doubted(
    context: BrowserContext, origin: str, number: int, asked: list[str]
) -> None:
    tab = await load(context, origin)
    queued = [task(f"t{one}", "pending", queue={"position": one}) for one in range(number)]
    script = """async (snapshot) => {
        const { doubtQueues, fromSnapshot, wanted } = await import("/client/state.js");
        return wanted(doubtQueues(fromSnapshot(snapshot), "0.11"));
    }"""
    assert await tab.run(script, snapshot(tasks=[*queued, task("running")])) == asked
    assert await tab.run(script, snapshot(tasks=[task("running")])) == []


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
async def test_an_ended_task_never_goes_back(context: BrowserContext, origin: str, end: str) -> None:
    late = [
        event(12, "task.progress", status="running", progress=0.3),
        event(13, "task.running", status="running"),
        event(14, "task.created", status="pending"),
        {"fact": {"key": "task:t1", "view": task("t1", "running")}},
        {"snapshot": snapshot("0.9", tasks=[task("t1", "running")])},
    ]
    ended = event(11, f"task.{end}", status=end)
    tab = await load(context, origin)
    for steps in itertools.permutations(late):
        begin = {"snapshot": snapshot(tasks=[task("t1")]), "steps": [ended, *steps], "now": 0}
        found = await tab.run(REDUCE, begin)
        assert (found["tasks"]["t1"]["status"], found["recent"]) == (end, ["t1"]), steps
        assert found["wanted"] == ["task:t1"], steps


async def test_an_event_counts_once(context: BrowserContext, origin: str) -> None:
    answered = event(11, "conversation.changed", "c1", unread=1)
    one = {"id": "c1", "title": "", "unread": 0, "created_at": AT, "changed_at": AT}
    found = await reduce(context, origin, snapshot(conversations=[one]), answered, answered, answered)
    assert (found["unread"], found["conversations"][0]["unread"]) == (1, 1)
    old = event(10, "credits.changed", available=0, held=0)
    assert (await reduce(context, origin, snapshot(), old))["credits"] == {"available": 10, "held": 0}


async def test_what_was_asked_for_before_a_newer_event_is_asked_for_again(context: BrowserContext, origin: str) -> None:
    begin = snapshot(tasks=[task("t1")])
    completed, stored = event(11, "task.completed"), event(12, "asset.stored", "a1", task_id="t1")
    view = task("t1", "completed", results=[{"id": "a1", "save_state": "saving"}])
    early = {"fact": {"key": "task:t1", "view": view, "mark": "0.11"}}
    found = await reduce(context, origin, begin, completed, stored, early)
    assert found["wanted"] == ["task:t1"]
    late = {"fact": {"key": "task:t1", "view": view, "mark": "0.12"}}
    found = await reduce(context, origin, begin, completed, stored, late)
    assert found["wanted"] == []
    assert found["tasks"]["t1"]["results"] == view["results"]


async def test_a_task_that_a_new_snapshot_does_not_show_is_asked_for_and_may_be_gone(
    context: BrowserContext, origin: str
) -> None:
    begin = snapshot(tasks=[task("t1")])
    again = {"snapshot": snapshot("0.20")}
    assert (await reduce(context, origin, begin, again))["wanted"] == ["task:t1"]
    gone = {"fact": {"key": "task:t1", "view": None, "mark": "0.20"}}
    found = await reduce(context, origin, begin, again, gone)
    assert (found["wanted"], found["tasks"]) == ([], {})


async def test_a_conversation_further_down_a_long_list_makes_a_new_snapshot(
    context: BrowserContext, origin: str
) -> None:
    changed = event(11, "conversation.changed", "far", unread=3)
    found = await reduce(context, origin, snapshot(conversations_next="x", unread=2), changed)
    assert sorted(found["wanted"]) == ["conversation:far", "everything"]
    assert found["unread"] == 2
    new = {"id": "new", "title": "New", "unread": 1, "created_at": AT, "changed_at": AT}
    known = {"fact": {"key": "conversation:new", "view": new, "mark": "0.11"}}
    found = await reduce(context, origin, snapshot(), event(11, "conversation.changed", "new", unread=1), known)
    assert (found["unread"], found["wanted"], len(found["conversations"])) == (1, [], 1)


async def test_what_was_deleted_is_gone_and_not_asked_for(context: BrowserContext, origin: str) -> None:
    talk = {"id": "c1", "title": "", "unread": 2, "created_at": AT, "changed_at": AT}
    begin = snapshot(recent=[task("t1", "completed"), task("t2", "failed")], conversations=[talk], unread=2)
    steps = [
        event(11, "asset.deleted", "a1", task_id="t1"),
        event(12, "task.deleted", "t1", conversation_id="c1"),
        event(13, "conversation.changed", "c1", unread=1),
        event(14, "conversation.deleted", "c1"),
    ]
    found = await reduce(context, origin, begin, *steps)
    assert (found["recent"], list(found["tasks"]), found["conversations"]) == (["t2"], ["t2"], [])
    assert (found["unread"], found["wanted"]) == (0, [])
    far = await reduce(
        context, origin, snapshot(conversations_next="x", unread=2), event(11, "conversation.deleted", "z")
    )
    assert (far["unread"], far["wanted"]) == (2, ["everything"])


async def test_only_so_many_ended_tasks_are_kept(context: BrowserContext, origin: str) -> None:
    ends = [event(11 + number, "task.failed", f"t{number:03}") for number in range(130)]
    found = await reduce(context, origin, snapshot(tasks=[task("still")]), *ends)
    assert (len(found["recent"]), len(found["tasks"])) == (100, 101)
    assert "still" in found["tasks"]


async def test_cursors_are_compared_as_pairs_of_large_numbers(context: BrowserContext, origin: str) -> None:
    chance = random.Random(3)
    pairs = [(chance.randrange(2**62), chance.randrange(5)) for _ in range(50)]
    pairs += [(2**60, 1), (2**60 + 1, 0), (9, 10), (10, 9), (9, 9)]
    words = [f"{one}.{other}" for one, other in sorted(set(pairs))]
    script = """async (words) => {
        const { isAfter } = await import("/client/cursors.js");
        return words.every((one, first) => words.every((other, second) => isAfter(one, other) === first > second))
            && isAfter("0.0", null) && !isAfter(null, "0.0") && !isAfter(null, null);
    }"""
    tab = await load(context, origin)
    assert await tab.run(script, words)
