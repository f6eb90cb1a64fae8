"""Wire answers read word by word, as far as the sandbox does not show them."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from longtake.adapters.net import HttpClient
from longtake.adapters.providers.errors import ProviderRefused, SubmitUnknown
from longtake.adapters.providers.provider import (
    Delivered,
    Failed,
    GenerationRequest,
    MediaUrl,
    Reference,
    Running,
    Strange,
    Succeeded,
)
from longtake.adapters.providers.registry import build_providers
from longtake.settings import Settings
from tests.net.servers import answer, running, saying
from tests.providers.asking import request

URL = "https://files.example/a.png?signature=1"
OPERATION = "models/veo/operations/1"
REFERENCES = [Reference("image/png", f"https://a.example/{number}", b"%d" % number) for number in range(3)]


async def told(client: HttpClient, name: str, content: Any, task_id: str = "t") -> object:
    """Return what an adapter makes of an answer to its query."""
    async with running(saying(answer(body=orjson.dumps(content)))) as server:
        settings = Settings(kie_base_url=server.url, gemini_base_url=server.url)
        return await build_providers(settings, client, lambda _name: "key")[name].query(task_id)


async def sent(client: HttpClient, name: str, asked: GenerationRequest, said: Any) -> Any:
    """Return the path and the body that an adapter sends, and its answer."""
    async with running(saying(answer(body=orjson.dumps(said)))) as server:
        settings = Settings(kie_base_url=server.url + "/base/", gemini_base_url=server.url)
        provider = build_providers(settings, client, lambda _name: "key")[name]
        result = await provider.submit(asked)
        received = server.received[0]
        return received.path, orjson.loads(received.body), received.headers, result


def record(**changes: Any) -> dict[str, Any]:
    return {"code": 200, "msg": "success", "data": {"taskId": "t", "state": "generating", **changes}}


def results(*urls: Any) -> str:
    return orjson.dumps({"resultUrls": urls}).decode()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"state": "waiting"}, Running(None, "waiting")),
        ({"state": "queuing", "progress": None}, Running(None, "queuing")),
        ({"progress": 45}, Running(0.45, "generating")),
        ({"progress": 0.45}, Running(0.45, "generating")),
        ({"progress": 1}, Running(0.01, "generating")),
        ({"progress": 45.5}, Running(0.455, "generating")),
        ({"progress": 400}, Running(1.0, "generating")),
        ({"progress": -1}, Running(0.0, "generating")),
        ({"progress": "45"}, Running(None, "generating")),
        ({"progress": True}, Running(None, "generating")),
        ({"state": "success", "resultJson": results(URL, URL)}, Succeeded((MediaUrl(URL), MediaUrl(URL)), 600)),
        ({"state": "success", "resultJson": {"resultUrls": [URL]}}, Succeeded((MediaUrl(URL),), 600)),
        ({"state": "success", "resultJson": results()}, Succeeded((), 600)),
        ({"state": "success", "resultJson": ""}, Strange("success without results")),
        ({"state": "success", "resultJson": None}, Strange("success without results")),
        ({"state": "success", "resultJson": "{"}, Strange("success without results")),
        ({"state": "success", "resultJson": "[]"}, Strange("success without results")),
        ({"state": "success", "resultJson": results(URL, 7)}, Strange("success without results")),
        ({"state": "success", "resultJson": results("file:///etc/passwd")}, Strange("success without results")),
        ({"state": "fail", "failCode": "500", "failMsg": "Too\x00 dark\n"}, Failed("500", "Too dark")),
        ({"state": "fail", "failCode": 422, "failMsg": "x" * 600}, Failed("422", "x" * 499 + "…")),
        ({"state": "fail", "failCode": None, "failMsg": None}, Failed("FAILED", "The generation failed.")),
        ({"state": "pondering"}, Strange("pondering")),
        ({"state": "SUCCESS"}, Strange("SUCCESS")),
        ({"state": "w" * 100}, Strange("w" * 59 + "…")),
        ({"state": None}, Strange("no state")),
        ({"state": ["success"]}, Strange("no state")),
        ({"taskId": "other", "state": "success", "resultJson": results(URL)}, Strange("no record of this task")),
    ],
)
async def test_records_of_kies_jobs(client: HttpClient, changes: dict[str, Any], expected: object) -> None:
    assert await told(client, "kie", record(**changes)) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"successFlag": 0}, Running(None, "running")),
        ({"successFlag": 1, "response": {"resultUrls": [URL]}}, Succeeded((MediaUrl(URL),), 600)),
        ({"successFlag": 1, "response": {"resultUrls": results(URL)}}, Strange("success without results")),
        ({"successFlag": 1, "response": None}, Strange("success without results")),
        ({"successFlag": 2, "errorCode": 500, "errorMessage": "No."}, Failed("500", "No.")),
        ({"successFlag": 3, "errorCode": None}, Failed("FAILED", "The generation failed.")),
        ({"successFlag": 4}, Strange("successFlag 4")),
        ({"successFlag": True, "response": {"resultUrls": [URL]}}, Strange("successFlag is not a number")),
        ({}, Strange("successFlag missing")),
    ],
)
async def test_records_of_kies_veo(client: HttpClient, changes: dict[str, Any], expected: object) -> None:
    assert await told(client, "kie_veo", record(**changes)) == expected


async def test_a_code_as_a_text_and_data_that_is_none(client: HttpClient) -> None:
    assert await told(client, "kie", {**record(), "code": "200"}) == Running(None, "generating")
    assert await told(client, "kie", {"code": 200, "data": None}) == Strange("no record of this task")


def done(**made: Any) -> dict[str, Any]:
    return {"name": OPERATION, "done": True, "response": {"generateVideoResponse": made}}


CLIP = {"video": {"uri": URL}}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"name": OPERATION}, Running(None, "running")),
        ({"name": OPERATION, "done": False, "metadata": {}}, Running(None, "running")),
        (done(generatedSamples=[CLIP]), Succeeded((MediaUrl(URL),), 172800)),
        (done(generatedSamples=[CLIP, {}]), Strange("a clip without an address")),
        (done(generatedSamples=[{"video": {"uri": "gs://x"}}]), Strange("a clip without an address")),
        (done(generatedSamples={}), Failed("FILTERED", "All clips were filtered out, without a reason.")),
        (done(raiMediaFilteredReasons=["Faces.", "Names."]), Failed("FILTERED", "Faces. Names.")),
        ({"name": OPERATION, "done": True}, Strange("done without a response")),
        ({"name": OPERATION, "done": True, "error": {"code": 13, "message": "Bad."}}, Failed("13", "Bad.")),
        ({"name": OPERATION, "done": "true"}, Strange("done is neither true nor false")),
        ({"name": "models/veo/operations/2", "done": True}, Strange("no record of this operation")),
        ({"done": True}, Strange("no record of this operation")),
    ],
)
async def test_operations_of_gemini(client: HttpClient, operation: Any, expected: object) -> None:
    assert await told(client, "gemini_veo", operation, OPERATION) == expected


async def test_what_kie_is_sent(client: HttpClient) -> None:
    asked = request("kie", "a cat", references=REFERENCES[:2], callback_url="https://me.example/c", reference_field="f")
    path, body, headers, _ = await sent(client, "kie", asked, {"code": 200, "data": {"taskId": "t"}})
    assert (path, headers["authorization"]) == ("/base/api/v1/jobs/createTask", "Bearer key")
    urls = ["https://a.example/0", "https://a.example/1"]
    given = {"image_size": "16:9", "output_format": "png", "prompt": "a cat", "f": urls}
    assert body == {"model": "google/nano-banana", "input": given, "callBackUrl": "https://me.example/c"}


async def test_what_kies_veo_is_sent(client: HttpClient) -> None:
    lies = {"model": "other", "callBackUrl": "https://evil.example/", "prompt": "a dog", "resolution": "720p"}
    accepted = {"code": 200, "data": {"taskId": "t"}}
    path, body, _, _ = await sent(client, "kie_veo", request("kie_veo", "a cat", parameters=lies), accepted)
    assert path == "/base/api/v1/veo/generate"
    assert body == {"model": "veo3_fast", "prompt": "a cat", "resolution": "720p"}
    for count, kind in ((1, "FIRST_AND_LAST_FRAMES_2_VIDEO"), (3, "REFERENCE_2_VIDEO")):
        asked = request("kie_veo", references=REFERENCES[:count])
        _, body, _, _ = await sent(client, "kie_veo", asked, accepted)
        assert (len(body["imageUrls"]), body["generationType"]) == (count, kind)


IMAGE = {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(b"image").decode()}}


def candidates(*parts: Any, **changes: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP", **changes}]}


async def test_what_gemini_is_sent_and_delivers(client: HttpClient) -> None:
    asked = request("gemini_image", "a cat", parameters={"imageSize": "2K", "seed": 7}, references=REFERENCES[:1])
    said = candidates({"text": "Here."}, {**IMAGE, "thought": True}, IMAGE, IMAGE)
    path, body, headers, result = await sent(client, "gemini_image", asked, said)
    assert (path, headers["x-goog-api-key"]) == ("/models/gemini-3.1-flash-image:generateContent", "key")
    first = {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(b"0").decode()}}
    assert body["contents"] == [{"role": "user", "parts": [{"text": "a cat"}, first]}]
    modalities = ["TEXT", "IMAGE"]
    assert body["generationConfig"] == {"seed": 7, "responseModalities": modalities, "imageConfig": {"imageSize": "2K"}}
    assert isinstance(result, Delivered)
    assert [(file.content_type, file.body) for file in result.files] == [("image/png", b"image")] * 2


async def test_what_geminis_veo_is_sent(client: HttpClient) -> None:
    for count, fields in ((0, set()), (1, {"image"}), (2, {"image", "lastFrame"}), (3, {"referenceImages"})):
        asked = request("gemini_veo", "a cat", references=REFERENCES[:count])
        path, body, _, _ = await sent(client, "gemini_veo", asked, {"name": OPERATION})
        assert path == "/models/veo-3.1-fast-generate-preview:predictLongRunning"
        assert set(body["instances"][0]) == {"prompt"} | fields
        assert body["parameters"] == {"aspectRatio": "16:9", "durationSeconds": 8}


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        ({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "PROHIBITED_CONTENT", "made no image"),
        (candidates(finishReason="IMAGE_SAFETY", finishMessage="Not that."), "IMAGE_SAFETY", "Not that."),
        (candidates({"text": "I cannot draw."}), "NO_IMAGE", "I cannot draw."),
        ({"candidates": [{"finishReason": "RECITATION"}]}, "RECITATION", "made no image"),
    ],
)
async def test_a_block_is_permanent_and_names_its_reason(client: HttpClient, said: Any, code: str, words: str) -> None:
    with pytest.raises(ProviderRefused) as caught:
        await sent(client, "gemini_image", request("gemini_image"), said)
    assert caught.value.fail_code == code
    assert words in caught.value.message


async def test_a_damaged_image_is_asked_for_again(client: HttpClient) -> None:
    damaged = candidates({"inlineData": {"mimeType": "image/png", "data": "%%%"}})
    with pytest.raises(SubmitUnknown):
        await sent(client, "gemini_image", request("gemini_image"), damaged)
