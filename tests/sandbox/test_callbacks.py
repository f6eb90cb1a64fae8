"""Callbacks: told when a task ends, tried again, signed; and wrong ones on demand."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.sandbox.wire import Kie, Receiver
from tests.wait import wait_for

if TYPE_CHECKING:
    from tests.sandbox_process import SandboxProcess


def bodies(listener: Receiver) -> list[Any]:
    return [json.loads(body) for _path, _headers, body in listener.got]


def test_the_end_is_told_in_the_shape_of_the_query(kie: Kie, listener: Receiver) -> None:
    task = kie.create("a fox", callback=f"{listener.url}/tsk_1")
    [body] = wait_for(lambda: bodies(listener), "the callback")
    assert body["code"] == 200
    assert body["data"] == kie.record(task)
    assert listener.got[0][0] == "/tsk_1"


def test_a_failure_is_told_as_well(kie: Kie, listener: Receiver) -> None:
    task = kie.create("a fox [fail]", callback=listener.url)
    [body] = wait_for(lambda: bodies(listener), "the callback")
    assert (body["code"], body["data"]["taskId"], body["data"]["state"]) == (501, task, "fail")


def test_a_clip_of_veo_is_told_with_its_results(kie: Kie, listener: Receiver) -> None:
    body = {"prompt": "a fox", "model": "veo3_fast", "callBackUrl": listener.url}
    task = kie.ask("POST", "/api/v1/veo/generate", body).json["data"]["taskId"]
    [told] = wait_for(lambda: bodies(listener), "the callback")
    assert (told["code"], told["data"]["taskId"], len(told["data"]["info"]["resultUrls"])) == (200, task, 1)


def test_a_callback_that_is_not_taken_is_sent_again(sandbox: SandboxProcess, kie: Kie, listener: Receiver) -> None:
    listener.statuses = [500, 200]
    task = kie.create("a fox", callback=listener.url)
    wait_for(lambda: len(listener.got) == 2, "the second try")
    wait_for(lambda: [call["status"] for call in sandbox.calls(route="callback", task=task)] == [500, 200], "two calls")


def test_a_signature_covers_id_and_time(sandbox: SandboxProcess, kie: Kie, listener: Receiver) -> None:
    sandbox.settings(webhook_key="whisper")
    task = kie.create("a fox", callback=listener.url)
    wait_for(lambda: listener.got, "the callback")
    headers = listener.got[0][1]
    message = f"{task}.{headers['X-Webhook-Timestamp']}".encode()
    expected = base64.b64encode(hmac.new(b"whisper", message, hashlib.sha256).digest()).decode()
    assert headers["X-Webhook-Signature"] == expected


def test_a_callback_is_lost_or_comes_three_times(sandbox: SandboxProcess, kie: Kie, listener: Receiver) -> None:
    sandbox.faults("drop", route="callback", prompt_contains="lost")
    sandbox.faults("duplicate", prompt_contains="thrice")
    lost = kie.create("lost", callback=f"{listener.url}/lost")
    kie.create("thrice", callback=f"{listener.url}/thrice")
    wait_for(lambda: len(listener.got) == 3, "three callbacks")
    assert [path for path, _headers, _body in listener.got] == ["/thrice"] * 3
    assert kie.end(lost)["state"] == "success"
    assert sandbox.calls(route="callback", task=lost) == []


def test_a_callback_comes_before_the_end(sandbox: SandboxProcess, kie: Kie, listener: Receiver) -> None:
    sandbox.settings(seconds={"image": 60})
    sandbox.faults("early")
    task = kie.create("a fox", callback=listener.url)
    [body] = wait_for(lambda: bodies(listener), "the early callback")
    assert (body["data"]["taskId"], body["data"]["state"]) == (task, "success")
    assert kie.record(task)["state"] == "waiting"


@pytest.mark.parametrize("kind", ["duplicate", "forged", "early", "unknown_task"])
def test_wrong_callbacks_are_sent_on_demand(sandbox: SandboxProcess, kie: Kie, listener: Receiver, kind: str) -> None:
    sandbox.settings(webhook_key="whisper", seconds={"image": 60})
    task = kie.create("a fox", callback=listener.url)
    listener.statuses = [202]
    assert sandbox.callback(task, kind) == 202
    [body] = bodies(listener)
    headers = listener.got[0][1]
    message = f"{body['data']['taskId']}.{headers['X-Webhook-Timestamp']}".encode()
    right = base64.b64encode(hmac.new(b"whisper", message, hashlib.sha256).digest()).decode()
    assert (headers["X-Webhook-Signature"] == right) is (kind != "forged")
    assert (body["data"]["taskId"] == task) is (kind != "unknown_task")
    assert body["data"]["state"] == ("success" if kind in {"forged", "early"} else "waiting")


def test_nobody_outside_this_machine_is_called(sandbox: SandboxProcess, kie: Kie) -> None:
    task = kie.create("a fox", callback="http://192.0.2.1/tsk")
    assert sandbox.callback(task, "duplicate") == 0
