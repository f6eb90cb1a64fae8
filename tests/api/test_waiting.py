"""Waiting for a task's end, its one form everywhere, and one request id from the caller to the last row."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from longtake.capabilities.generation.schemas import TaskAnswer
from longtake.services.assets import AssetView
from tests.api.stage import Api, place_for
from tests.sandbox_process import running_sandbox
from tests.wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server with its worker, and a provider that is quick unless it is told to be slow."""
    with running_sandbox(seconds={"image": 0.1, "video": 0.1}) as sandbox:
        place = place_for(tmp_path_factory.mktemp("api"), sandbox=sandbox, poll_seconds="0.1")
        with place.server_here() as server:
            api = Api(place, server, sandbox)
            api.grant("ada", 10_000)
            yield api


@pytest.fixture
def slow(api: Api) -> Iterator[None]:
    """Let the provider take its time."""
    assert api.sandbox is not None
    api.sandbox.settings(seconds={"image": 600})
    yield
    api.sandbox.settings(seconds={"image": 0.1})


def assert_exact(answer: dict[str, Any]) -> None:
    """A task has the fields it is described with, and no others."""
    TaskAnswer.model_validate(answer)
    assert set(answer) == set(TaskAnswer.model_fields)
    for result in answer["results"]:
        assert set(result) == set(AssetView.model_fields)


@pytest.mark.parametrize(
    ("content", "headers"),
    [({}, {"Prefer": "wait=30"}), ({}, {"Prefer": "respond-async, wait"}), ({"wait_for_result": True}, {})],
    ids=["so many seconds", "as long as it may", "in the body"],
)
def test_whoever_waits_gets_the_result(api: Api, content: dict[str, Any], headers: dict[str, str]) -> None:
    answer = api.generate(content, headers=headers)
    assert (answer.status, answer.json["status"], answer.json["error"]) == (200, "completed", None)
    assert answer.headers["location"] == f"/v1/tasks/{answer.json['id']}"
    assert answer.json["results"][0]["url"].startswith("http")
    assert answer.json["credits"] == {"price": 4, "refunded": 0, "state": "captured"}
    assert_exact(answer.json)


@pytest.mark.usefixtures("slow")
def test_whoever_waits_in_vain_gets_the_task_as_it_is(api: Api) -> None:
    began = time.monotonic()
    answer = api.generate(headers={"Prefer": "wait=1"})
    assert (answer.status, answer.json["ended_at"]) == (202, None)
    # The provider takes ten minutes: the answer did not wait for it, but as long as it was asked to.
    assert time.monotonic() - began >= 1
    assert_exact(answer.json)


@pytest.mark.usefixtures("slow")
def test_without_a_wish_the_answer_comes_at_once(api: Api) -> None:
    answer = api.generate()
    assert (answer.status, answer.json["status"], answer.json["results"]) == (202, "pending", [])
    assert_exact(answer.json)


def test_one_can_wait_for_a_task_that_is_there_already(api: Api) -> None:
    task = api.generate().headers["location"]
    ended = api.ask("GET", task, headers={"Prefer": "wait=30"})
    assert (ended.status, ended.json["status"]) == (200, "completed")
    assert_exact(ended.json)


@pytest.mark.usefixtures("slow")
def test_a_cancel_reaches_whoever_waits(api: Api) -> None:
    """And the task is the same in every answer that shows it."""
    task = api.generate().headers["location"]
    assert [one for one in api.ask("GET", "/v1/tasks/pending").json["tasks"] if task.endswith(one["id"])]
    cancelled = api.ask("POST", f"{task}/cancel")
    shown = api.ask("GET", task, headers={"Prefer": "wait=30"})
    listed = api.ask("GET", "/v1/tasks?limit=1&status=cancelled").json["tasks"][0]
    assert (cancelled.json["status"], cancelled.json["error"]["code"]) == ("cancelled", "CANCELLED")
    assert cancelled.json == shown.json == listed
    assert_exact(listed)
    again = api.ask("POST", f"{task}/retry")
    assert (again.status, again.json["retry_of"], again.headers["location"]) == (
        202, shown.json["id"], f"/v1/tasks/{again.json['id']}",
    )  # fmt: skip


def test_a_failed_task_says_why_and_costs_nothing(api: Api) -> None:
    api.grant("eve", 4)
    answer = api.generate({"prompt": "a fox [fail]", "wait_for_result": True}, user="eve")
    assert (answer.status, answer.json["status"], answer.json["credits"]["state"]) == (200, "failed", "released")
    assert answer.json["error"]["code"]
    assert api.balance("eve") == (4, 0)
    assert_exact(answer.json)


def test_a_finished_task_is_a_message_with_its_parameters_and_cost(api: Api) -> None:
    conversation = api.conversation()
    task = api.generate({"conversation_id": conversation, "wait_for_result": True}).json
    asked, answered = reversed(api.ask("GET", f"/v1/conversations/{conversation}/messages").json["messages"])
    assert (asked["role"], asked["text"]) == ("user", "a red fox")
    assert (answered["id"], answered["task_id"], answered["state"]) == (task["message_id"], task["id"], "completed")
    assert (answered["data"]["credits"], answered["data"]["model"]) == (4, "nano-banana")
    assert api.ask("GET", f"/v1/conversations/{conversation}").json["unread"] == 1
    assert api.ask("POST", f"/v1/conversations/{conversation}/read").json["unread"] == 0


def test_pages_of_tasks_join_without_a_gap_and_end(api: Api) -> None:
    ids = [api.generate(user="ada", content={"conversation_id": None}).json["id"] for _ in range(3)]
    everything = [one["id"] for one in api.ask("GET", "/v1/tasks?limit=200").json["tasks"]]
    found: list[str] = []
    path = "/v1/tasks?limit=3"
    while True:
        page = api.ask("GET", path).json
        found += [one["id"] for one in page["tasks"]]
        if page["next"] is None:
            break
        path = f"/v1/tasks?limit=3&before={page['next']}"
    assert found == everything
    assert found[:3] == ids[::-1]
    exact = api.ask("GET", f"/v1/tasks?limit={min(len(everything), 200)}").json
    assert (len(exact["tasks"]), exact["next"]) == (len(everything), None)


def test_the_request_id_goes_from_the_caller_to_the_last_row_and_log_line(api: Api) -> None:
    request_id = "from-the-caller.1:2_3"
    answer = api.generate({"wait_for_result": True}, headers={"X-Request-Id": request_id})
    assert (answer.headers["x-request-id"], answer.json["request_id"]) == (request_id, request_id)

    def copied() -> bool:
        results = api.ask("GET", answer.headers["location"]).json["results"]
        return bool(results) and all(one["save_state"] == "success" for one in results)

    wait_for(copied, "the copy")
    ended = f"SELECT kind FROM jobs_ended WHERE request_id = '{request_id}'"
    kinds = {"generation.submit", "generation.poll", "assets.mirror", "assets.thumbnail"}
    wait_for(lambda: {kind for (kind,) in api.sql(ended)} == kinds, "the end of all its jobs")
    assert api.sql(f"SELECT count(*) FROM tasks WHERE request_id = '{request_id}'") == [(1,)]

    def lines() -> list[dict[str, Any]]:
        logged = [json.loads(line) for line in api.server.log.read_text().splitlines() if request_id in line]
        return [line for line in logged if line["request_id"] == request_id]

    wait_for(lambda: any(line["event"] == "request" for line in lines()), "the request's line")
    line = next(line for line in lines() if line["event"] == "request")
    told = [line[name] for name in ("method", "path", "status", "user_id")]
    assert told == ["POST", "/v1/images/generate", 200, "ada"]
