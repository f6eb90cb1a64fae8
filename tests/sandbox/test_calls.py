"""The log of calls, and what was accepted: what a test compares with what Longtake believes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtake_sandbox.calls import CallLog
from tests.sandbox.wire import JOBS, Kie, ask

if TYPE_CHECKING:
    from tests.sandbox_process import SandboxProcess


def test_a_call_is_logged_with_what_it_was_about(sandbox: SandboxProcess, kie: Kie) -> None:
    task = kie.create("a fox", callback="http://127.0.0.1:9/v1/callbacks/kie/tsk_1?token=x")
    kie.record(task)
    submit, query = [call for call in sandbox.calls(task=task) if call["route"] in {"submit", "query"}]
    assert (submit["method"], submit["path"]) == ("POST", f"/kie{JOBS}/createTask")
    assert (submit["model"], submit["prompt"], submit["reference"]) == ("nano-banana-pro", "a fox", "tsk_1")
    assert (submit["status"], submit["fault"], query["route"], query["prompt"]) == (200, "", "query", "a fox")
    assert query["sequence"] > submit["sequence"]
    assert query["monotonic"] > submit["monotonic"]
    assert submit["milliseconds"] > 0


def test_a_call_is_logged_with_its_query_and_its_end(sandbox: SandboxProcess, kie: Kie) -> None:
    task = kie.create("a fox")
    rule = sandbox.faults("delay", delay=0.05, query_contains=f"taskId={task}")
    kie.ask("GET", f"{JOBS}/recordInfo?taskId={task}&note=%E6%98%9F")
    kie.ask("GET", f"{JOBS}/recordInfo?taskId=another")
    first, second = sandbox.calls(route="query", provider="kie")[-2:]
    assert (first["query"], second["query"]) == (f"taskId={task}&note=星", "taskId=another")
    assert first["monotonic"] + 0.05 <= first["monotonic_end"] <= second["monotonic"]
    assert sandbox.applied(rule) == 1


def test_calls_are_found_by_path_and_number(sandbox: SandboxProcess, kie: Kie) -> None:
    task = kie.create("a fox")
    last = sandbox.calls(task=task)[-1]["sequence"]
    kie.record(task)
    assert [call["path"] for call in sandbox.calls(since=last, task=task)] == [f"/kie{JOBS}/recordInfo"]
    assert [call["route"] for call in sandbox.calls(path="createTask")] == ["submit"]
    assert sandbox.calls(path="createTask", status=500) == []
    assert ask("GET", f"{sandbox.url}/_calls?since=x").status == 400


def test_calls_are_counted_and_forgotten(sandbox: SandboxProcess, kie: Kie) -> None:
    sandbox.clear_calls()
    task = kie.create("a fox")
    sandbox.faults("status", status=503, route="query", times=1)
    kie.ask("GET", f"{JOBS}/recordInfo?taskId={task}")
    kie.record(task)
    counts = sandbox.ask("GET", "/_calls/summary")["counts"]
    # Callbacks of other tests may still be tried.
    found = [one for one in counts if one["route"] != "callback"]
    assert [(one["route"], one["status"], one["fault"], one["count"]) for one in found] == [
        ("query", 200, "", 1), ("query", 503, "status", 1), ("submit", 200, "", 1),
    ]  # fmt: skip
    sandbox.clear_calls()
    assert sandbox.calls(task=task) == []


def test_no_key_is_in_the_log(sandbox: SandboxProcess) -> None:
    client = Kie(sandbox, "a-key-nobody-should-read")
    client.ask("POST", f"{JOBS}/createTask", {"model": "nano-banana-pro", "input": {"prompt": "x"}})
    ask("GET", f"{sandbox.gemini_url}/models/m/operations/o?key=a-key-nobody-should-read")
    assert {call["route"] for call in sandbox.calls()} >= {"submit", "query"}
    assert "nobody-should-read" not in str(sandbox.calls()) + str(sandbox.settings())


def test_accepted_tasks_are_listed_with_their_callback(sandbox: SandboxProcess, kie: Kie) -> None:
    task = kie.create("a fox in the list", callback="http://127.0.0.1:9/tsk_2")
    [found] = [one for one in sandbox.tasks() if one["id"] == task]
    assert (found["prompt"], found["callback_url"], found["reference"]) == (
        "a fox in the list", "http://127.0.0.1:9/tsk_2", "tsk_2",
    )  # fmt: skip
    assert found["state"] in {"waiting", "queuing", "generating", "success"}


def test_a_reference_in_the_query_of_a_callback_is_noted(sandbox: SandboxProcess, kie: Kie) -> None:
    task = kie.create("a fox", callback="http://127.0.0.1:9/v1/callbacks/kie?reference=tsk_3")
    [submit] = sandbox.calls(route="submit", reference="tsk_3")
    assert submit["task"] == task


def test_the_oldest_calls_make_room() -> None:
    log = CallLog(3)
    for number in range(5):
        log.arrived("kie", "query", "GET", f"/{number}")
    assert [call.path for call in log.find()] == ["/2", "/3", "/4"]
    assert [call.path for call in log.find(since=4)] == ["/4"]
    assert log.last == 5
