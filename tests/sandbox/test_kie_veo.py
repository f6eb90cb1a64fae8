"""KIE's Veo API on the wire."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import av
import pytest

from tests.sandbox.wire import Kie, ask
from tests.wait import wait_for

if TYPE_CHECKING:
    from tests.sandbox_process import SandboxProcess

VEO = "/api/v1/veo"


def generate(kie: Kie, **body: Any) -> Any:
    return kie.ask("POST", f"{VEO}/generate", body).json


def end(kie: Kie, task: str) -> Any:
    def ended() -> Any:
        data = kie.ask("GET", f"{VEO}/record-info?taskId={task}").json["data"]
        return data if data["successFlag"] else None

    return wait_for(ended, "the clip's end")


@pytest.fixture(autouse=True)
def durations_of_video(sandbox: SandboxProcess) -> None:
    sandbox.settings(seconds={"veo3": None, "veo3_fast": None})


def test_a_clip_runs_and_then_has_its_results_in_a_real_array(sandbox: SandboxProcess, kie: Kie) -> None:
    sandbox.settings(seconds={"veo3": 30, "veo3_fast": 0})
    running = generate(kie, prompt="a fox runs", model="veo3")["data"]["taskId"]
    data = kie.ask("GET", f"{VEO}/record-info?taskId={running}").json["data"]
    assert (data["successFlag"], data["response"], data["completeTime"]) == (0, None, None)
    done = generate(kie, prompt="a fox runs", model="veo3_fast", aspectRatio="9:16")["data"]["taskId"]
    data = end(kie, done)
    assert data["successFlag"] == 1
    [url] = data["response"]["resultUrls"]
    with av.open(io.BytesIO(ask("GET", url).body), "r", format="mp4") as container:
        frame = next(container.decode(video=0))
        assert (frame.width, frame.height) == (360, 640)
        assert 1.9 <= float(container.duration or 0) / av.time_base <= 4.1


@pytest.mark.parametrize(("word", "flag", "code"), [("[fail]", 2, 500), ("[blocked]", 3, 400)])
def test_words_in_the_prompt_choose_a_failure(kie: Kie, word: str, flag: int, code: int) -> None:
    data = end(kie, generate(kie, prompt=f"a fox {word}", model="veo3")["data"]["taskId"])
    assert (data["successFlag"], data["errorCode"], data["response"]) == (flag, code, None)
    assert data["errorMessage"]


@pytest.mark.parametrize(
    "body",
    [
        {"model": "veo3"},
        {"prompt": "x", "model": "veo2"},
        {"prompt": "x", "aspectRatio": "1:1"},
        {"prompt": "x", "duration": 5},
        {"prompt": "x", "imageUrls": ["http://a/1", "http://a/2", "http://a/3", "http://a/4"]},
    ],
)
def test_what_is_not_valid_is_refused(kie: Kie, body: dict[str, Any]) -> None:
    assert generate(kie, **body)["code"] == 422


def test_one_api_does_not_know_the_tasks_of_the_other(kie: Kie) -> None:
    job = kie.create("a fox")
    assert kie.ask("GET", f"{VEO}/record-info?taskId={job}").json["code"] == 404


def test_a_flag_can_be_unknown_or_go_backwards(sandbox: SandboxProcess, kie: Kie) -> None:
    task = generate(kie, prompt="a fox", model="veo3")["data"]["taskId"]
    end(kie, task)
    sandbox.faults("unknown_state", times=1)
    sandbox.faults("backwards", times=1)
    told = [kie.ask("GET", f"{VEO}/record-info?taskId={task}").json["data"]["successFlag"] for _ in range(3)]
    assert told == [9, 0, 1]
