"""KIE's job API on the wire, as an adapter sees it."""

from __future__ import annotations

import io
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from tests.sandbox.wire import JOBS, Kie, Receiver, ask

if TYPE_CHECKING:
    from tests.sandbox_process import SandboxProcess

FIELDS = {
    "taskId", "model", "state", "param", "resultJson", "failCode", "failMsg", "costTime", "createTime", "completeTime",
    "updateTime",
}  # fmt: skip


def picture(url: str) -> Image.Image:
    image = Image.open(io.BytesIO(ask("GET", url).body))
    image.load()
    return image


def png(colour: str = "red") -> bytes:
    output = io.BytesIO()
    Image.new("RGB", (40, 30), colour).save(output, "PNG")
    return output.getvalue()


def test_a_task_waits_first_and_then_has_a_result_as_json_inside_a_text(sandbox: SandboxProcess, kie: Kie) -> None:
    sandbox.settings(seconds={"image": 30})
    waiting = kie.create("a fox")
    record = kie.record(waiting)
    assert set(record) == FIELDS
    assert (record["state"], record["resultJson"], record["completeTime"]) == ("waiting", "", None)
    sandbox.settings(seconds={"image": 0})
    started = int(time.time() * 1000)
    done = kie.create("a fox")
    record = kie.record(done)
    assert (record["taskId"], record["model"], record["state"]) == (done, "nano-banana-pro", "success")
    assert json.loads(record["param"])["input"] == {"prompt": "a fox"}
    assert started <= record["createTime"] <= time.time() * 1000
    assert record["completeTime"] == record["createTime"]
    assert picture(json.loads(record["resultJson"])["resultUrls"][0]).format == "PNG"


def test_pictures_have_the_ratio_and_format_that_was_asked_for_and_differ_by_prompt(kie: Kie) -> None:
    fox = picture(kie.result_url(kie.create("a fox", aspect_ratio="16:9")))
    assert fox.size == (1024, 576)
    assert picture(kie.result_url(kie.create("a fox", aspect_ratio="16:9"))).tobytes() == fox.tobytes()
    assert picture(kie.result_url(kie.create("a hare", aspect_ratio="16:9"))).tobytes() != fox.tobytes()
    jpeg = picture(kie.result_url(kie.create("a fox", "google/nano-banana", image_size="9:16", output_format="jpeg")))
    assert (jpeg.format, jpeg.size) == ("JPEG", (576, 1024))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "JSON"),
        ({"model": "somebody/else", "input": {"prompt": "x"}}, "model name"),
        ({"model": "nano-banana-pro"}, "input"),
        ({"model": "nano-banana-pro", "input": {"prompt": " "}}, "prompt"),
        ({"model": "nano-banana-pro", "input": {"prompt": "x", "aspect_ratio": "7:3"}}, "aspect_ratio"),
        ({"model": "google/nano-banana-edit", "input": {"prompt": "x"}}, "image_urls"),
        ({"model": "google/nano-banana-edit", "input": {"prompt": "x", "image_urls": "http://127.0.0.1/"}}, "array"),
        ({"model": "google/nano-banana-edit", "input": {"prompt": "x", "image_urls": ["file:///x"]}}, "image_urls"),
        ({"model": "kling-2.6/text-to-video", "input": {"prompt": "x", "duration": 5}}, "duration"),
        ({"model": "kling-2.6/text-to-video", "input": {"prompt": "x", "duration": "7"}}, "duration"),
    ],
)
def test_what_is_not_valid_is_refused_inside_a_200_and_not_accepted(
    sandbox: SandboxProcess, kie: Kie, body: Any, message: str
) -> None:
    before = len(sandbox.tasks())
    answer = kie.ask("POST", f"{JOBS}/createTask", body)
    assert (answer.status, answer.json["code"], answer.json["data"]) == (200, 422, None)
    assert message in answer.json["msg"]
    assert len(sandbox.tasks()) == before


@pytest.mark.parametrize(("prompt", "code"), [("x [fail]", "500"), ("x [blocked]", "400")])
def test_words_in_the_prompt_choose_a_failure(kie: Kie, prompt: str, code: str) -> None:
    record = kie.end(kie.create(prompt))
    assert (record["state"], record["failCode"], record["resultJson"]) == ("fail", code, "")
    assert record["failMsg"]


def test_words_in_the_prompt_choose_success_without_a_result(kie: Kie) -> None:
    assert json.loads(kie.end(kie.create("x [empty]"))["resultJson"]) == {"resultUrls": []}


def test_a_wrong_key_is_told_in_the_body_and_a_key_can_be_revoked(sandbox: SandboxProcess, kie: Kie) -> None:
    task = kie.create("a fox")
    for client in (Kie(sandbox, "wrong"), Kie(sandbox, " ")):
        answer = client.ask("GET", f"{JOBS}/recordInfo?taskId={task}")
        assert (answer.status, answer.json["code"]) == (200, 401)
    sandbox.settings(keys=["another"])
    assert kie.ask("GET", f"{JOBS}/recordInfo?taskId={task}").json["code"] == 401
    assert Kie(sandbox, "another").record(task)["taskId"] == task


def test_an_unknown_task_is_404_in_the_body(kie: Kie) -> None:
    answer = kie.ask("GET", f"{JOBS}/recordInfo?taskId=nobody")
    assert (answer.status, answer.json["code"]) == (200, 404)


def test_a_download_link_is_another_address_of_the_same_file(sandbox: SandboxProcess, kie: Kie) -> None:
    url = kie.result_url(kie.create("a fox"))
    link = kie.ask("POST", "/api/v1/common/download-url", {"url": url}).json["data"]
    assert link != url
    assert ask("GET", link).body == ask("GET", url).body
    foreign = kie.ask("POST", "/api/v1/common/download-url", {"url": "http://127.0.0.1:1/files/x/y.png"})
    assert foreign.json["code"] == 422


def test_a_reference_is_fetched_and_is_on_the_picture(kie: Kie, listener: Receiver) -> None:
    listener.content = png()
    urls = [f"{listener.url}/one.png"]
    edited = picture(kie.result_url(kie.create("a fox", "google/nano-banana-edit", image_urls=urls)))
    assert [path for path, _headers, _body in listener.got] == ["/one.png"]
    assert edited.getpixel((14, 14)) == (255, 0, 0)


@pytest.mark.parametrize(("status", "content"), [(404, png()), (200, b"<html>no picture</html>"), (302, png())])
def test_a_bad_reference_fails_the_task(kie: Kie, listener: Receiver, status: int, content: bytes) -> None:
    listener.statuses, listener.content = [status], content
    record = kie.end(kie.create("a fox", "google/nano-banana-edit", image_urls=[f"{listener.url}/one.png"]))
    assert (record["state"], record["failCode"]) == ("fail", "422")
    assert "mage" in record["failMsg"]


def test_references_outside_this_machine_are_not_fetched(kie: Kie) -> None:
    record = kie.end(kie.create("x", "google/nano-banana-edit", image_urls=["http://192.0.2.1/one.png"]))
    assert "not an address of this machine" in record["failMsg"]


def test_submits_and_queries_have_limits_of_their_own(sandbox: SandboxProcess, kie: Kie) -> None:
    sandbox.settings(submit_limit="2/60", query_limit="3/60")
    task = kie.create("one")
    kie.create("two")
    refused = kie.ask("POST", f"{JOBS}/createTask", {"model": "nano-banana-pro", "input": {"prompt": "three"}})
    assert (refused.status, refused.json["code"]) == (429, 429)
    statuses = [kie.ask("GET", f"{JOBS}/recordInfo?taskId={task}").status for _ in range(4)]
    assert statuses == [200, 200, 200, 429]
    assert "three" not in [one["prompt"] for one in sandbox.tasks()]
