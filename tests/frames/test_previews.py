"""Previews: frames from all over a video, at little cost, and never at that of a thumbnail."""

from __future__ import annotations

import asyncio
import io
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

import av
import pytest
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from PIL import Image, ImageSequence, ImageStat

from longtake.adapters.decoder import pictures
from longtake.adapters.decoder.errors import DecodersBusy
from longtake.adapters.decoder.pool import DecoderPool
from longtake.adapters.decoder.protocol import DecodeRequest
from longtake_sandbox.media import draw_clip
from tests.frames.test_decoders import STILL, Bytes, Endless
from tests.wait import PATIENCE_SECONDS

PREVIEW = DecodeRequest("preview", "video/mp4")
CLIP = Bytes(draw_clip("a fox", "16:9", faststart=True))
FRAMES = 240


def brightening(seconds: int, key_frame_every: int, form: str = "mp4", codec: str = "libx264") -> bytes:
    """Return a video of 240 frames that goes from black to white, so that a frame tells its moment."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "video"
        with av.open(str(path), "w", format=form) as container:
            stream = container.add_stream(codec, rate=Fraction(FRAMES, seconds))
            assert isinstance(stream, VideoStream)
            stream.width, stream.height, stream.pix_fmt = 64, 36, "yuv420p"
            stream.options = {"g": str(key_frame_every), "keyint_min": str(key_frame_every), "sc_threshold": "0"}
            for number in range(FRAMES):
                picture = Image.new("RGB", (64, 36), (number, number, number))
                container.mux(stream.encode(VideoFrame.from_image(picture)))  # type: ignore[no-untyped-call]
            container.mux(stream.encode(None))
        return path.read_bytes()


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[VideoFrame]:
    """Every frame that is decoded in this process."""
    frames: list[VideoFrame] = []
    really = pictures._decoded

    def counting(*arguments: object) -> Iterator[VideoFrame]:
        for frame in really(*arguments):  # type: ignore[arg-type]
            frames.append(frame)
            yield frame

    monkeypatch.setattr(pictures, "_decoded", counting)
    return frames


def brightness(preview: bytes) -> list[float]:
    with Image.open(io.BytesIO(preview)) as animation:
        return [ImageStat.Stat(one.convert("L")).mean[0] for one in ImageSequence.Iterator(animation)]


@pytest.mark.parametrize(
    ("key_frame_every", "most"), [(250, FRAMES), (12, FRAMES // 2)], ids=["one key frame", "many key frames"]
)
def test_no_frame_of_a_short_video_is_decoded_twice(decoded: list[VideoFrame], key_frame_every: int, most: int) -> None:
    body = brightening(10, key_frame_every)
    _facts, preview, _placeholder = pictures.decode(asdict(PREVIEW), io.BytesIO(body))
    assert len(decoded) <= most
    assert len({frame.pts for frame in decoded}) == len(decoded)
    assert brightness(preview) == pytest.approx([10 + 20 * number for number in range(12)], abs=4)


def test_a_video_without_an_index_is_decoded_once_as_well(decoded: list[VideoFrame]) -> None:
    body = brightening(10, 250, "webm", "libvpx")
    request = asdict(DecodeRequest("preview", "video/webm"))
    _facts, preview, _placeholder = pictures.decode(request, io.BytesIO(body))
    assert len(decoded) <= FRAMES
    assert brightness(preview) == pytest.approx([10 + 20 * number for number in range(12)], abs=6)


def test_of_a_long_video_the_nearest_key_frames_do(decoded: list[VideoFrame]) -> None:
    _facts, preview, _placeholder = pictures.decode(asdict(PREVIEW), io.BytesIO(brightening(40, 20)))
    assert len(decoded) == 12
    assert brightness(preview) == pytest.approx([20 * number for number in range(12)], abs=4)


async def test_previews_leave_decoders_to_whoever_is_in_a_hurry() -> None:
    decoders = DecoderPool(2)
    previews = [asyncio.create_task(decoders.decode(PREVIEW, Endless(b"x" * 1000))) for _ in range(4)]
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert (await decoders.decode(STILL, CLIP)).picture
    for one in previews:
        one.cancel()
    await asyncio.wait(previews)
    assert (await decoders.decode(PREVIEW, CLIP)).picture, "the places are free again"
    await decoders.close()


async def test_a_preview_that_waits_too_long_for_the_others_is_told_so() -> None:
    decoders = DecoderPool(3, place_seconds=0.05)
    first = asyncio.create_task(decoders.decode(PREVIEW, Endless(b"x" * 1000)))
    await asyncio.sleep(0)
    with pytest.raises(DecodersBusy):
        await decoders.decode(PREVIEW, CLIP)
    first.cancel()
    await asyncio.wait([first])
    assert (await decoders.decode(PREVIEW, CLIP)).picture
    await decoders.close()


async def test_a_single_decoder_makes_previews_too() -> None:
    decoders = DecoderPool(1)
    assert (await decoders.decode(PREVIEW, CLIP)).picture
    await decoders.close()
