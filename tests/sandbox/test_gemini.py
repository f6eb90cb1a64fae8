"""Gemini's two ways on the wire: an image in the answer, and a clip behind an operation."""

from __future__ import annotations

import base64
import io
import time
from typing import TYPE_CHECKING, Any

import av
import pytest
from PIL import Image

from tests.sandbox.test_kie_jobs import png
from tests.sandbox.wire import Answer, ask
from tests.wait import wait_for

if TYPE_CHECKING:
    from tests.sandbox_process import SandboxProcess

FLASH = "gemini-3.1-flash-image"
VEO = "veo-3.1-generate-preview"


def gemini(
    sandbox: SandboxProcess, method: str, path: str, body: Any = None, key: str | None = None, seconds: float = 10
) -> Answer:
    return ask(method, f"{sandbox.gemini_url}/{path}", body, {"x-goog-api-key": key or sandbox.key}, seconds)


def draw(
    sandbox: SandboxProcess, prompt: str, *, inline: bytes | str = b"", seconds: float = 10, **config: Any
) -> Answer:
    parts: list[dict[str, Any]] = [{"text": prompt}]
    if inline:
        data = inline if isinstance(inline, str) else base64.b64encode(inline).decode()
        parts.append({"inlineData": {"mimeType": "image/png", "data": data}})
    body = {
        "contents": [{"parts": parts}],
        "generationConfig": {"responseModalities": ["IMAGE"], "imageConfig": config},
    }
    return gemini(sandbox, "POST", f"models/{FLASH}:generateContent", body, seconds=seconds)


def film(sandbox: SandboxProcess, prompt: str, **parameters: Any) -> Answer:
    body = {"instances": [{"prompt": prompt}], "parameters": parameters}
    return gemini(sandbox, "POST", f"models/{VEO}:predictLongRunning", body)


def operation(sandbox: SandboxProcess, name: str) -> Any:
    def done() -> Any:
        content = gemini(sandbox, "GET", name).json
        return content if content.get("done") else None

    return wait_for(done, "the operation's end")


def test_the_answer_has_a_sentence_first_and_then_the_image(sandbox: SandboxProcess) -> None:
    answer = draw(sandbox, "a fox", aspectRatio="4:3", imageSize="1K")
    [candidate] = answer.json["candidates"]
    sentence, image = candidate["content"]["parts"]
    assert candidate["finishReason"] == "STOP"
    assert "text" in sentence
    assert image["inlineData"]["mimeType"] == "image/png"
    assert Image.open(io.BytesIO(base64.b64decode(image["inlineData"]["data"]))).size == (1024, 768)


def test_the_answer_takes_as_long_as_it_should(sandbox: SandboxProcess) -> None:
    # Without drawing, which takes its own time.
    sandbox.settings(instant=True)
    draw(sandbox, "a fox [seconds=0]")
    started = time.monotonic()
    draw(sandbox, "a fox [seconds=0.5]")
    assert time.monotonic() - started >= 0.5


def test_an_image_in_the_request_is_on_the_picture(sandbox: SandboxProcess) -> None:
    parts = draw(sandbox, "a fox", inline=png()).json["candidates"][0]["content"]["parts"]
    image = Image.open(io.BytesIO(base64.b64decode(parts[1]["inlineData"]["data"])))
    assert image.getpixel((14, 14)) == (255, 0, 0)


@pytest.mark.parametrize("inline", ["not base64!", base64.b64encode(b"no picture").decode()])
def test_a_bad_image_in_the_request_is_refused(sandbox: SandboxProcess, inline: str) -> None:
    before = len(sandbox.tasks())
    answer = draw(sandbox, "a fox", inline=inline)
    assert (answer.status, answer.json["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert len(sandbox.tasks()) == before


def test_blocks_name_their_reason(sandbox: SandboxProcess) -> None:
    blocked = draw(sandbox, "x [blocked]")
    assert (blocked.status, blocked.json["promptFeedback"]["blockReason"]) == (200, "PROHIBITED_CONTENT")
    assert "candidates" not in blocked.json
    assert draw(sandbox, "x [safety]").json["candidates"][0]["finishReason"] == "IMAGE_SAFETY"
    empty = draw(sandbox, "x [empty]").json["candidates"][0]
    assert (empty["finishReason"], len(empty["content"]["parts"])) == ("NO_IMAGE", 1)
    assert draw(sandbox, "x [fail]").status == 500


def test_a_wrong_key_is_an_invalid_argument(sandbox: SandboxProcess) -> None:
    answer = gemini(sandbox, "POST", f"models/{FLASH}:generateContent", {"contents": []}, key="wrong")
    error = answer.json["error"]
    assert (answer.status, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert error["details"][0]["reason"] == "API_KEY_INVALID"


@pytest.mark.parametrize("path", ["models/other:generateContent", "models/other:predictLongRunning"])
def test_an_unknown_model_is_not_found(sandbox: SandboxProcess, path: str) -> None:
    answer = gemini(sandbox, "POST", path, {})
    assert (answer.status, answer.json["error"]["status"]) == (404, "NOT_FOUND")


def test_a_request_without_words_or_with_a_wrong_ratio_is_refused(sandbox: SandboxProcess) -> None:
    assert gemini(sandbox, "POST", f"models/{FLASH}:generateContent", {"contents": []}).status == 400
    assert draw(sandbox, "a fox", aspectRatio="7:3").status == 400
    assert film(sandbox, "").status == 400
    assert film(sandbox, "a fox", durationSeconds=5).status == 400


def test_a_quota_is_told_by_its_details_and_not_by_a_header(sandbox: SandboxProcess) -> None:
    quota = "GenerateRequestsPerDayPerProjectPerModel"
    sandbox.faults("status", status=429, retry_delay="38s", quota_id=quota, route="submit", times=1)
    answer = draw(sandbox, "a fox")
    assert (answer.status, answer.json["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
    failure, info = answer.json["error"]["details"]
    assert failure["violations"][0]["quotaId"] == quota
    assert info["retryDelay"] == "38s"
    assert "retry-after" not in answer.headers
    assert draw(sandbox, "a fox").status == 200


def test_a_clip_is_behind_an_operation_a_key_and_a_redirect(sandbox: SandboxProcess) -> None:
    sandbox.settings(seconds={"video": 30})
    running = film(sandbox, "a fox runs").json["name"]
    assert gemini(sandbox, "GET", running).json == {"name": running}
    sandbox.settings(seconds={"video": 0.1})
    name = film(sandbox, "a fox runs", aspectRatio="16:9", durationSeconds=8, resolution="720p").json["name"]
    assert name.startswith(f"models/{VEO}/operations/")
    [sample] = operation(sandbox, name)["response"]["generateVideoResponse"]["generatedSamples"]
    uri = sample["video"]["uri"]
    assert ask("GET", uri).status == 400
    redirect = ask("GET", uri, headers={"x-goog-api-key": sandbox.key})
    assert redirect.status == 302
    with av.open(io.BytesIO(ask("GET", redirect.headers["location"]).body), "r", format="mp4") as container:
        assert next(container.decode(video=0)).width == 640


def test_operations_end_with_an_error_or_without_samples(sandbox: SandboxProcess) -> None:
    failed = operation(sandbox, film(sandbox, "x [fail]").json["name"])
    assert failed["error"]["code"] == 13
    blocked = operation(sandbox, film(sandbox, "x [blocked]").json["name"])["response"]["generateVideoResponse"]
    assert "generatedSamples" not in blocked
    assert blocked["raiMediaFilteredReasons"]
    assert gemini(sandbox, "GET", f"models/{VEO}/operations/nobody").status == 404


def test_one_drawing_is_given_to_two_calls(sandbox: SandboxProcess) -> None:
    first = draw(sandbox, "first").json
    sandbox.faults("duplicate_id", route="submit", times=1)
    assert draw(sandbox, "second").json == first
    assert not [one for one in sandbox.tasks() if one["prompt"] == "second"]
    assert draw(sandbox, "third").json["responseId"] != first["responseId"]


def test_a_drawing_never_ends(sandbox: SandboxProcess) -> None:
    rule = sandbox.faults("running", route="submit", times=1)
    with pytest.raises(TimeoutError):
        draw(sandbox, "a fox for ever", seconds=0.3)
    assert sandbox.applied(rule) == 1
    [task] = [one for one in sandbox.tasks() if one["prompt"] == "a fox for ever"]
    assert task["seconds"] is None
    assert draw(sandbox, "a fox").status == 200


def test_paid_calls_are_tasks_too(sandbox: SandboxProcess) -> None:
    draw(sandbox, "only once")
    assert [one["provider"] for one in sandbox.tasks() if one["prompt"] == "only once"] == ["gemini"]
