"""Each fault shows on the wire as it is meant to, as often as it is meant to."""

from __future__ import annotations

import http.client
import json
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.sandbox.wire import JOBS, Answer, Kie, ask
from tests.wait import PATIENCE_SECONDS, wait_for

if TYPE_CHECKING:
    from tests.sandbox_process import SandboxProcess

SUBMIT = {"model": "nano-banana-pro", "input": {"prompt": "told to fail"}}


def query(kie: Kie, task: str) -> Answer:
    return kie.ask("GET", f"{JOBS}/recordInfo?taskId={task}")


def accepted(sandbox: SandboxProcess, prompt: str) -> int:
    return len([one for one in sandbox.tasks() if one["prompt"] == prompt])


@pytest.fixture
def task(kie: Kie) -> str:
    created = kie.create("a fox")
    kie.end(created)
    return created


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        ({"status": 503}, 503, 503),
        ({"code": 455}, 200, 455),
        ({"code": 402}, 200, 402),
        ({"code": 433}, 200, 433),
        ({"status": 401, "code": 401}, 401, 401),
    ],
)
def test_codes_come_as_the_status_or_inside_a_200(
    sandbox: SandboxProcess, kie: Kie, task: str, fault: dict[str, Any], status: int, code: int
) -> None:
    rule = sandbox.faults("status", **fault, route="query", times=1)
    answer = query(kie, task)
    assert (answer.status, answer.json["code"], answer.json["data"]) == (status, code, None)
    assert query(kie, task).json["code"] == 200
    assert sandbox.applied(rule) == 1


@pytest.mark.parametrize(("body", "content_type"), [("html", "text/html"), ("text", "text/plain")])
def test_an_error_can_be_no_json_at_all(
    sandbox: SandboxProcess, kie: Kie, task: str, body: str, content_type: str
) -> None:
    sandbox.faults("status", status=502, body=body, route="query", times=1)
    answer = query(kie, task)
    assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (502, content_type)


@pytest.mark.parametrize("value", [7, "0.5", "-1", "99999999999", "soon"])
def test_retry_after_comes_as_it_is_given(sandbox: SandboxProcess, kie: Kie, task: str, value: Any) -> None:
    sandbox.faults("status", status=429, retry_after=value, route="query", times=1)
    assert query(kie, task).headers["retry-after"] == str(value)


def test_retry_after_comes_as_a_date(sandbox: SandboxProcess, kie: Kie, task: str) -> None:
    sandbox.faults("status", status=429, retry_after="date:60", route="query", times=1)
    ahead = parsedate_to_datetime(query(kie, task).headers["retry-after"]) - datetime.now(UTC)
    assert 50 < ahead.total_seconds() < 70


def test_a_delay_comes_before_the_answer(sandbox: SandboxProcess, kie: Kie, task: str) -> None:
    sandbox.faults("delay", delay=0.3, route="query", times=1)
    started = time.monotonic()
    assert query(kie, task).json["code"] == 200
    assert time.monotonic() - started >= 0.3


def test_a_call_hangs_until_the_client_gives_up_and_the_log_has_it_meanwhile(
    sandbox: SandboxProcess, kie: Kie, task: str
) -> None:
    sandbox.faults("hang", route="query", times=1)
    sandbox.clear_calls()
    with pytest.raises(TimeoutError):
        kie.ask("GET", f"{JOBS}/recordInfo?taskId={task}", seconds=0.2)
    assert [call["fault"] for call in sandbox.calls(route="query")] == ["hang"]
    wait_for(lambda: sandbox.calls(route="query")[0]["status"] == 499, "the sandbox noticing that the client has gone")


def test_a_dropped_submit_is_not_accepted(sandbox: SandboxProcess, kie: Kie) -> None:
    before = accepted(sandbox, "told to fail")
    sandbox.faults("drop", route="submit", times=1)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        kie.ask("POST", f"{JOBS}/createTask", SUBMIT)
    assert accepted(sandbox, "told to fail") == before


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("accept_then_drop", (http.client.RemoteDisconnected, ConnectionResetError)),
        ("accept_then_hang", TimeoutError),
    ],
)
def test_a_submit_can_be_accepted_without_the_caller_hearing_of_it(
    sandbox: SandboxProcess, kie: Kie, kind: str, error: Any
) -> None:
    before = accepted(sandbox, "told to fail")
    sandbox.faults(kind, route="submit", times=1)
    with pytest.raises(error):
        kie.ask("POST", f"{JOBS}/createTask", SUBMIT, seconds=0.3)
    assert accepted(sandbox, "told to fail") == before + 1


def test_a_submit_can_be_accepted_and_told_to_have_failed(sandbox: SandboxProcess, kie: Kie) -> None:
    before = accepted(sandbox, "told to fail")
    sandbox.faults("status", status=504, after=True, route="submit", times=1)
    assert kie.ask("POST", f"{JOBS}/createTask", SUBMIT).status == 504
    assert accepted(sandbox, "told to fail") == before + 1


def test_one_id_is_given_to_two_submits(sandbox: SandboxProcess, kie: Kie) -> None:
    sandbox.faults("duplicate_id", skip=1)
    assert kie.create("first") == kie.create("second")


def test_a_file_is_cut_in_the_middle(sandbox: SandboxProcess, kie: Kie, task: str) -> None:
    url = kie.result_url(task)
    whole = len(ask("GET", url).body)
    sandbox.faults("truncated", route="file", times=1)
    with pytest.raises(http.client.IncompleteRead) as cut:
        ask("GET", url)
    assert (len(cut.value.partial), cut.value.expected) == (whole // 2, whole - whole // 2)


def test_a_file_does_not_end(sandbox: SandboxProcess, kie: Kie, task: str) -> None:
    url = kie.result_url(task)
    whole = ask("GET", url).body
    sandbox.faults("endless", route="file", times=1)
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=PATIENCE_SECONDS)
    connection.request("GET", f"/{path}")
    response = connection.getresponse()
    assert response.getheader("Content-Length") is None
    assert response.read(10 * len(whole)).startswith(whole)
    # In the middle of it: there would be more.
    assert len(response.read(1024 * 1024)) == 1024 * 1024
    connection.close()
    response.close()


def test_a_file_is_a_page_or_nothing_or_of_another_type(sandbox: SandboxProcess, kie: Kie, task: str) -> None:
    url = kie.result_url(task)
    whole = ask("GET", url).body
    sandbox.faults("html", route="file", times=1)
    sandbox.faults("empty", route="file", times=1)
    sandbox.faults("wrong_type", value="text/plain", route="file", times=1)
    page, nothing, wrong = (ask("GET", url) for _ in range(3))
    assert (page.status, page.headers["content-type"].partition(";")[0]) == (200, "text/html")
    assert page.body.startswith(b"<!DOCTYPE html>")
    assert (nothing.status, nothing.body) == (200, b"")
    assert (wrong.headers["content-type"], wrong.body) == ("text/plain", whole)


@pytest.mark.parametrize("status", [404, 403, 410])
def test_after_a_success_the_file_is_gone(sandbox: SandboxProcess, kie: Kie, task: str, status: int) -> None:
    url = kie.result_url(task)
    rule = sandbox.faults("status", status=status, provider="kie", route="file", task=task)
    assert [ask("GET", url).status for _ in range(2)] == [status, status]
    assert sandbox.applied(rule) == 2


def test_json_that_is_none_and_json_without_fields_or_with_other_values(
    sandbox: SandboxProcess, kie: Kie, task: str
) -> None:
    sandbox.faults("garbage", route="query", times=1)
    sandbox.faults("missing", fields=["data.state", "msg"], route="query", times=1)
    sandbox.faults("replace", replace={"data.state": 7, "code": "200"}, route="query", times=1)
    with pytest.raises(json.JSONDecodeError):
        _ = query(kie, task).json
    without = query(kie, task).json
    assert "msg" not in without
    assert "state" not in without["data"]
    assert without["data"]["taskId"] == task
    other = query(kie, task).json
    assert (other["data"]["state"], other["code"]) == (7, "200")


def test_states_are_unknown_or_go_backwards(sandbox: SandboxProcess, kie: Kie) -> None:
    sandbox.faults("backwards", times=1)
    new = kie.create("a fox")
    # Nobody has heard of the end yet, so the first answer is not spoilt.
    assert kie.end(new)["state"] == "success"
    sandbox.faults("unknown_state", value="dreaming", times=1)
    assert [kie.record(new)["state"] for _ in range(3)] == ["generating", "dreaming", "success"]


def test_a_task_runs_for_ever(sandbox: SandboxProcess, kie: Kie) -> None:
    sandbox.settings(seconds={"image": 0})
    sandbox.faults("running", route="submit", times=1)
    forever, other = kie.create("a fox"), kie.create("a fox")
    assert kie.record(forever)["state"] == "waiting"
    assert kie.record(other)["state"] == "success"
    sandbox.faults("running", route="query", task=other)
    assert kie.record(other)["state"] == "generating"


def test_rules_match_by_model_prompt_and_path_and_the_first_counts(sandbox: SandboxProcess, kie: Kie) -> None:
    sandbox.faults("status", code=501, route="submit", model="nano-banana-2")
    sandbox.faults("status", code=505, route="submit", prompt_contains="wolf")
    sandbox.faults("status", code=500, path_contains="download-url")

    def code(model: str, prompt: str) -> int:
        body = {"model": model, "input": {"prompt": prompt}}
        return int(kie.ask("POST", f"{JOBS}/createTask", body).json["code"])

    found = [code("nano-banana-2", "a wolf"), code("nano-banana-pro", "a wolf"), code("nano-banana-pro", "a fox")]
    assert found == [501, 505, 200]
    assert kie.ask("POST", "/api/v1/common/download-url", {}).json["code"] == 500


def test_rules_spare_the_first_calls_and_can_be_removed(sandbox: SandboxProcess, kie: Kie, task: str) -> None:
    rule = sandbox.faults("status", status=503, route="query", skip=2)
    assert [query(kie, task).status for _ in range(4)] == [200, 200, 503, 503]
    sandbox.ask("DELETE", f"/_faults/{rule}")
    assert query(kie, task).status == 200


@pytest.mark.parametrize(
    "body",
    [
        {"fault": {"kind": "nonsense"}},
        {"fault": {"kind": "status"}},
        {"fault": {"kind": "status", "status": 503}, "often": 3},
        {"fault": {"kind": "status", "status": 503}, "match": {"rout": "query"}},
        {"fault": {"kind": "missing"}},
        {"fault": {"kind": "delay"}},
        {"fault": {"kind": "drop"}, "probability": 2},
    ],
)
def test_a_rule_that_would_do_nothing_is_refused(sandbox: SandboxProcess, body: Any) -> None:
    answer = ask("POST", f"{sandbox.url}/_faults", body)
    assert answer.status == 400
    assert answer.json["problems"]
