"""Result files: real media, in ranges, for as long as their address works."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import av
import pytest

from longtake_sandbox.media import draw_clip, draw_picture, encode, is_faststart, size_of
from tests.sandbox.wire import Kie, ask

if TYPE_CHECKING:
    from tests.sandbox_process import SandboxProcess


@pytest.fixture
def url(kie: Kie) -> str:
    return kie.result_url(kie.create("a fox"))


def test_a_file_has_a_length_a_type_and_an_etag(url: str) -> None:
    answer = ask("GET", url)
    assert int(answer.headers["content-length"]) == len(answer.body)
    assert answer.headers["content-type"] == "image/png"
    head = ask("HEAD", url)
    assert (head.body, head.headers["content-length"]) == (b"", answer.headers["content-length"])
    unchanged = ask("GET", url, headers={"If-None-Match": answer.headers["etag"]})
    assert (unchanged.status, unchanged.body) == (304, b"")


def test_a_part_of_a_file_can_be_asked_for(url: str) -> None:
    whole = ask("GET", url).body
    part = ask("GET", url, headers={"Range": "bytes=10-19"})
    assert (part.status, part.body) == (206, whole[10:20])
    assert part.headers["content-range"] == f"bytes 10-19/{len(whole)}"
    assert ask("GET", url, headers={"Range": "bytes=-5"}).body == whole[-5:]
    assert ask("GET", url, headers={"Range": f"bytes={len(whole) - 3}-"}).body == whole[-3:]
    beyond = ask("GET", url, headers={"Range": f"bytes={len(whole)}-"})
    assert (beyond.status, beyond.headers["content-range"]) == (416, f"bytes */{len(whole)}")
    several = ask("GET", url, headers={"Range": "bytes=0-1,4-5"})
    assert (several.status, several.body) == (200, whole)
    other = ask("GET", url, headers={"Range": "bytes=0-1", "If-Range": '"other"'})
    assert (other.status, other.body) == (200, whole)


def test_an_address_expires_and_asking_again_gives_another(sandbox: SandboxProcess, kie: Kie) -> None:
    sandbox.settings(url_seconds=0)
    task = kie.create("a fox")
    expired = kie.result_url(task)
    assert ask("GET", expired).status == 410
    sandbox.settings(url_seconds=3600)
    fresh = kie.result_url(task)
    assert fresh != expired
    assert ask("GET", fresh).status == 200
    assert kie.result_url(task) == fresh
    assert ask("GET", expired).status == 410


def test_an_unknown_file_is_not_found(sandbox: SandboxProcess) -> None:
    assert ask("GET", f"{sandbox.url}/files/nobody/x.png").status == 404


def test_without_drawing_files_are_tiny_and_still_real(sandbox: SandboxProcess, kie: Kie) -> None:
    sandbox.settings(instant=True)
    image = ask("GET", kie.result_url(kie.create("a fox")))
    assert (image.body[:8], len(image.body) < 500) == (b"\x89PNG\r\n\x1a\n", True)
    video = ask("GET", kie.result_url(kie.create("a fox", "kling-2.6/text-to-video", duration="5")))
    assert len(video.body) < 5000
    with av.open(io.BytesIO(video.body), "r", format="mp4") as container:
        assert next(container.decode(video=0)).width == 64


@pytest.mark.parametrize(("choice", "index_first"), [("yes", True), ("no", False)])
def test_the_index_of_a_clip_is_where_it_is_wanted(
    sandbox: SandboxProcess, kie: Kie, choice: str, index_first: bool
) -> None:
    sandbox.settings(faststart=choice)
    content = ask("GET", kie.result_url(kie.create("a fox runs", "kling-3.0/video", duration="5"))).body
    assert (content.index(b"moov") < content.index(b"mdat")) is index_first


def test_one_half_of_the_prompts_has_its_index_in_front() -> None:
    assert 30 < sum(is_faststart(f"prompt {number}", "half") for number in range(100)) < 70


def test_clips_move_and_are_the_same_for_the_same_prompt() -> None:
    content = draw_clip("a fox", "1:1", faststart=True)
    assert content == draw_clip("a fox", "1:1", faststart=True)
    with av.open(io.BytesIO(content), "r", format="mp4") as container:
        frames = [bytes(frame.planes[0]) for frame in container.decode(video=0)]
    assert 48 <= len(frames) <= 96
    # More than what the codec leaves behind.
    assert sum(abs(first - last) > 25 for first, last in zip(frames[0], frames[-1], strict=True)) > 1000


@pytest.mark.parametrize(
    ("ratio", "size"), [("1:1", (1024, 1024)), ("16:9", (1024, 576)), ("9:16", (576, 1024)), ("auto", (1024, 1024))]
)
def test_sizes_follow_the_ratio(ratio: str, size: tuple[int, int]) -> None:
    assert size_of(ratio) == size


@pytest.mark.parametrize("prompt", ["", "x" * 3000, "many words " * 500, "一只狐狸在雪地里奔跑" * 30, "a\nb\x00c 🦊"])
def test_any_prompt_can_be_drawn(prompt: str) -> None:
    assert encode(draw_picture(prompt, (320, 180)), "png").startswith(b"\x89PNG")
