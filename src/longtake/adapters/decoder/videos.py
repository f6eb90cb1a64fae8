"""Frames of videos, in the child."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import av
import av.error
from av.container import InputContainer
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from PIL import Image

from longtake.adapters.decoder.frames import BinaryFile, Refused, broken, check_size, cover, placeholder_of, to_jpeg

#: One demuxer for each type. With no protocol allowed, a file that points elsewhere points nowhere.
DEMUXERS = {"video/mp4": "mp4", "video/quicktime": "mov", "video/webm": "matroska"}
OPTIONS = {"protocol_whitelist": "none"}
#: More frames than this are not decoded to come to the wanted moment; then the last one seen is taken.
MOST_FRAMES = 600
LONGEST_SECONDS = 24 * 3600.0
PREVIEW_SIZE = (320, 180)
PREVIEW_MILLISECONDS = 250
#: In a video this short all moments may lie behind one key frame: then each is decoded up to.
SHORT_SECONDS = 30.0
QUARTER_TURN = 90
#: How many times as large as the picture itself what it is cut from may be, where that is made larger.
MOST_ENLARGED = 2

Answer = tuple[dict[str, Any], bytes, bytes]


def of_video(wish: dict[str, Any], file: BinaryFile) -> Answer:
    """Make what was wished for of a video."""
    try:
        with av.open(
            file, "r", format=DEMUXERS[wish["content_type"]], options=OPTIONS, metadata_errors="replace"
        ) as opened:
            stream = _stream(opened)
            duration = _duration(opened, stream)
            if wish["what"] == "preview":
                return _preview(wish, opened, stream, duration)
            frame = _frame_at(opened, stream, wish["at"])
            facts = _facts(frame, stream, duration)
            if wish["what"] == "check":
                return facts, b"", b""
            still = _picture(frame, stream, wish["width"], wish["height"])
            return facts, to_jpeg(still, wish["quality"]), placeholder_of(still)
    except (av.error.FFmpegError, IndexError, ValueError):
        raise broken() from None


def _stream(opened: InputContainer) -> VideoStream:
    if not opened.streams.video:
        raise Refused("broken", "The file has no video in it.")
    stream = opened.streams.video[0]
    check_size(stream.codec_context.width, stream.codec_context.height)
    # Threads cost more than they bring for a single frame, and count against the limits.
    stream.thread_type = "NONE"
    return stream


def _duration(opened: InputContainer, stream: VideoStream) -> float | None:
    if stream.duration is not None and stream.time_base is not None:
        seconds = float(stream.duration * stream.time_base)
    elif opened.duration is not None:
        seconds = opened.duration / av.time_base
    else:
        return None
    return round(seconds, 3) if 0 < seconds <= LONGEST_SECONDS else None


def _frame_at(opened: InputContainer, stream: VideoStream, at: float) -> VideoFrame:
    """Return the first frame at or after the moment, or the last there is before it."""
    found = None
    for number, frame in enumerate(_decoded(opened, stream)):
        found = frame
        if _reaches(frame, at) or number >= MOST_FRAMES:
            break
    if found is None:
        raise broken()
    return found


def _decoded(opened: InputContainer, stream: VideoStream) -> Iterator[VideoFrame]:
    for frame in opened.decode(stream):
        check_size(frame.width, frame.height)
        yield frame


def _facts(frame: VideoFrame, stream: VideoStream, duration: float | None) -> dict[str, Any]:
    width, height = _square(frame, stream)
    if _lies(frame):
        width, height = height, width
    return {"width": width, "height": height, "duration_seconds": duration}


def _picture(frame: VideoFrame, stream: VideoStream, width: int, height: int) -> Image.Image:
    """Return the middle of the frame as it is meant to be seen, turned as its maker held the camera.

    It gets its size before its colours, which is most of the work. Only one that is far longer than wide is made larger
    once its middle is cut out: else a narrow strip would need the memory of a wall.
    """
    seen = _square(frame, stream)
    wanted = (height, width) if _lies(frame) else (width, height)
    scale = max(wanted[0] / seen[0], wanted[1] / seen[1])
    if scale > 1 and seen[0] * seen[1] * scale**2 > MOST_ENLARGED * width * height:
        scale = 1.0
    size = [max(1, round(side * scale)) for side in seen]
    scaled = frame.reformat(width=size[0], height=size[1], format="rgb24", interpolation="BICUBIC")
    picture: Image.Image = scaled.to_image()  # type: ignore[no-untyped-call]
    return cover(picture.rotate(frame.rotation, expand=True) if frame.rotation else picture, width, height)


def _square(frame: VideoFrame, stream: VideoStream) -> tuple[int, int]:
    """Return the size that the frame has with square pixels, before it is turned."""
    ratio = stream.sample_aspect_ratio
    if ratio and ratio > 0 and ratio != 1:
        return min(max(1, round(frame.width * ratio)), 4 * frame.width), frame.height
    return frame.width, frame.height


def _lies(frame: VideoFrame) -> bool:
    return frame.rotation % 180 == QUARTER_TURN


def _preview(wish: dict[str, Any], opened: InputContainer, stream: VideoStream, duration: float | None) -> Answer:
    """Return frames from all over the video as one animation."""
    moments = _moments(wish["frames"], duration)
    short = duration is not None and duration < SHORT_SECONDS
    pictures: list[Image.Image] = []
    facts: dict[str, Any] = {}
    for frame in (_frames_at if short else _key_frames_at)(opened, stream, moments):
        facts = facts or _facts(frame, stream, duration)
        pictures.append(_picture(frame, stream, *PREVIEW_SIZE))
    out = io.BytesIO()
    pictures[0].save(
        out,
        "WEBP",
        save_all=True,
        append_images=pictures[1:],
        duration=PREVIEW_MILLISECONDS,
        loop=0,
        quality=60,
        method=4,
    )
    return facts, out.getvalue(), placeholder_of(pictures[0])


def _moments(count: int, duration: float | None) -> list[float]:
    length = duration or 0.0
    return [length * (number + 0.5) / count for number in range(count)] if length else [0.0]


def _key_frames_at(opened: InputContainer, stream: VideoStream, moments: list[float]) -> Iterator[VideoFrame]:
    """Yield the nearest key frame of each moment: in a long video that will do."""
    for moment in moments:
        opened.seek(_place(stream, moment), stream=stream)
        yield _frame_at(opened, stream, 0.0)


def _frames_at(opened: InputContainer, stream: VideoStream, moments: list[float]) -> Iterator[VideoFrame]:
    """Yield the frame of each moment, decoding none twice: where key frames are rare, that would be most of the work.

    What lies between two moments is decoded unless the index knows of a key frame there to begin anew at.
    """
    frames: Iterator[VideoFrame] = iter(())
    frame: VideoFrame | None = None
    for moment in moments:
        if frame is None or _key_frame_between(stream, frame, moment):
            opened.seek(_place(stream, moment), stream=stream)
            frames, frame = _decoded(opened, stream), None
        if frame is None or not _reaches(frame, moment):
            for number, later in enumerate(frames):
                frame = later
                if _reaches(frame, moment) or number >= MOST_FRAMES:
                    break
        if frame is None:
            raise broken()
        yield frame


def _key_frame_between(stream: VideoStream, frame: VideoFrame, moment: float) -> bool:
    found = stream.index_entries.search_timestamp(_place(stream, moment))
    return found >= 0 and frame.pts is not None and stream.index_entries[found].timestamp > frame.pts


def _reaches(frame: VideoFrame, moment: float) -> bool:
    return frame.time is not None and frame.time >= moment


def _place(stream: VideoStream, moment: float) -> int:
    return int(moment / stream.time_base) if stream.time_base else 0
