"""Decoding in the child: still pictures and frames of videos, under the same limits and by the same encoders."""

from __future__ import annotations

import importlib
import io
import pkgutil
from collections.abc import Iterator
from typing import IO, Any, cast

import av
import av.error
from av.container import InputContainer
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from PIL import Image, ImageOps, UnidentifiedImageError

from longtake.adapters.decoder.protocol import MOST_PIXELS, MOST_SIDE, PLACEHOLDER_SIZE, BlockReader

Image.MAX_IMAGE_PIXELS = MOST_PIXELS

#: The only format that Pillow may try for each type.
PICTURES = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP", "image/gif": "GIF"}
BACKGROUND = (255, 255, 255)
#: How many times the size of the result a JPEG must at least have when it is decoded at a reduced scale.
SPARE = {"still": 2, "small": 1}
#: A small copy may exceed the requested size by this factor. Many do after decoding at a reduced scale; scaling them by
#: that little would take a third of all the time, and blur them.
NEARLY = 1.25
#: One demuxer for each type. No protocol is allowed, so references to other files or URLs fail.
DEMUXERS = {"video/mp4": "mp4", "video/quicktime": "mov", "video/webm": "matroska"}
OPTIONS = {"protocol_whitelist": "none"}
#: How many frames are decoded at most to reach the requested moment. Then the last one is taken.
MOST_FRAMES = 600
LONGEST_SECONDS = 24 * 3600.0
PREVIEW_SIZE = (320, 180)
PREVIEW_MILLISECONDS = 250
#: A shorter video may have a single key frame for all moments, so frames are decoded up to each moment.
SHORT_SECONDS = 30.0
QUARTER_TURN = 90
#: How many times the pixels of the picture an enlarged frame may have before it is cropped.
MOST_ENLARGED = 2

Decoded = tuple[dict[str, Any], bytes, bytes]
BinaryFile = BlockReader | io.BytesIO


class MediaRejected(Exception):
    """The file cannot or must not be decoded; `reason` says which."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


def decode(request: dict[str, Any], file: BinaryFile) -> Decoded:
    """Carry out a request; return facts about the file, the picture and the placeholder."""
    if request["content_type"] in PICTURES:
        return _of_picture(request, file)
    return _of_video(request, file)


def load_decoders() -> None:
    """Load everything that a request can need, lazy imports of libraries included: later no file can be opened."""
    Image.init()
    for module in pkgutil.walk_packages(av.__path__, "av."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _of_picture(request: dict[str, Any], file: BinaryFile) -> Decoded:
    try:
        picture = _open(request, file)
        check_size(*picture.size)
        if picture.format == "PNG":
            # The decoder accepts a stream that ends in zeros; the checksums do not.
            picture.verify()
            file.seek(0)
            picture = _open(request, file)
        facts = {"width": picture.width, "height": picture.height, "duration_seconds": None}
        if request["what"] in SPARE:
            # A JPEG that is far too large is decoded at a reduced scale. Other formats ignore this.
            spare = SPARE[request["what"]]
            picture.draft("RGB", (request["width"] * spare, request["height"] * spare))
        picture.load()
    except Image.DecompressionBombError:
        raise too_large() from None
    except (UnidentifiedImageError, SyntaxError, ValueError, OSError, EOFError):
        raise broken() from None
    if request["what"] == "check":
        return facts, b"", b""
    before = picture.size
    ImageOps.exif_transpose(picture, in_place=True)
    if picture.size != before:
        facts |= {"width": facts["height"], "height": facts["width"]}
    if request["what"] == "small":
        return facts, _fitting_webp(_flat(picture), request), b""
    still = cover(_flat(picture), request["width"], request["height"])
    return facts, to_jpeg(still, request["quality"]), placeholder_of(still)


def _open(request: dict[str, Any], file: BinaryFile) -> Image.Image:
    return Image.open(cast("IO[bytes]", file), formats=[PICTURES[request["content_type"]]])


def check_size(width: int, height: int) -> None:
    """Reject a picture that would fill memory once decoded."""
    if not (0 < width <= MOST_SIDE and 0 < height <= MOST_SIDE and width * height <= MOST_PIXELS):
        raise too_large(width, height)


def too_large(width: int | None = None, height: int | None = None) -> MediaRejected:
    """Return the error for a picture that is too large."""
    what = "The picture" if width is None else f"The picture is {width}×{height}; it"
    return MediaRejected("too large", f"{what} has more than {MOST_PIXELS:,} pixels or {MOST_SIDE:,} on a side.")


def broken() -> MediaRejected:
    """Return the error for a damaged file."""
    return MediaRejected("broken", "The file is damaged, or not whole.")


def cover(picture: Image.Image, width: int, height: int) -> Image.Image:
    """Return the middle of the picture, scaled to fill the size exactly."""
    return ImageOps.fit(picture, (width, height), Image.Resampling.BICUBIC)


def to_jpeg(picture: Image.Image, quality: int) -> bytes:
    """Return the picture as JPEG, without anything but pixels."""
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=quality)
    return out.getvalue()


def _fitting_webp(picture: Image.Image, request: dict[str, Any]) -> bytes:
    if picture.width > request["width"] * NEARLY or picture.height > request["height"] * NEARLY:
        picture.thumbnail((request["width"], request["height"]), Image.Resampling.BICUBIC)
    out = io.BytesIO()
    # Lists show many of these: a little larger, but made in half the time.
    picture.save(out, "WEBP", quality=request["quality"], method=2)
    return out.getvalue()


def placeholder_of(picture: Image.Image) -> bytes:
    """Return a picture of under a hundred bytes, which a page shows blurred until the real one is loaded."""
    small = picture.resize(PLACEHOLDER_SIZE, Image.Resampling.BOX)
    out = io.BytesIO()
    small.save(out, "WEBP", quality=10, method=6)
    return out.getvalue()


def _flat(picture: Image.Image) -> Image.Image:
    if picture.mode in {"RGBA", "LA", "PA"} or "transparency" in picture.info:
        solid = picture.convert("RGBA")
        ground = Image.new("RGBA", solid.size, (*BACKGROUND, 255))
        return Image.alpha_composite(ground, solid).convert("RGB")
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def _of_video(request: dict[str, Any], file: BinaryFile) -> Decoded:
    try:
        with av.open(
            file, "r", format=DEMUXERS[request["content_type"]], options=OPTIONS, metadata_errors="replace"
        ) as opened:
            stream = _stream(opened)
            duration = _duration(opened, stream)
            if request["what"] == "preview":
                return _preview(request, opened, stream, duration)
            frame = _frame_at(opened, stream, request["at"])
            facts = _facts(frame, stream, duration)
            if request["what"] == "check":
                return facts, b"", b""
            still = _picture(frame, stream, request["width"], request["height"])
            return facts, to_jpeg(still, request["quality"]), placeholder_of(still)
    except (av.error.FFmpegError, IndexError, ValueError):
        raise broken() from None


def _stream(opened: InputContainer) -> VideoStream:
    if not opened.streams.video:
        raise MediaRejected("broken", "The file has no video in it.")
    stream = opened.streams.video[0]
    check_size(stream.codec_context.width, stream.codec_context.height)
    # Threads cost more than they save for a single frame, and they count against the limits.
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
    """Return the first frame at or after the moment, or else the last one before it."""
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
    if _is_sideways(frame):
        width, height = height, width
    return {"width": width, "height": height, "duration_seconds": duration}


def _picture(frame: VideoFrame, stream: VideoStream, width: int, height: int) -> Image.Image:
    """Return the middle of the frame, rotated as the file says.

    The frame is scaled before its colours are converted, which saves most of the work. An extreme ratio that needs
    enlarging is scaled only after cropping, because the whole enlarged frame would need too much memory.
    """
    seen = _square(frame, stream)
    target = (height, width) if _is_sideways(frame) else (width, height)
    scale = max(target[0] / seen[0], target[1] / seen[1])
    if scale > 1 and seen[0] * seen[1] * scale**2 > MOST_ENLARGED * width * height:
        scale = 1.0
    size = [max(1, round(side * scale)) for side in seen]
    scaled = frame.reformat(width=size[0], height=size[1], format="rgb24", interpolation="BICUBIC")
    picture: Image.Image = scaled.to_image()  # type: ignore[no-untyped-call]
    return cover(picture.rotate(frame.rotation, expand=True) if frame.rotation else picture, width, height)


def _square(frame: VideoFrame, stream: VideoStream) -> tuple[int, int]:
    """Return the frame's size with square pixels, before rotation."""
    ratio = stream.sample_aspect_ratio
    if ratio and ratio > 0 and ratio != 1:
        return min(max(1, round(frame.width * ratio)), 4 * frame.width), frame.height
    return frame.width, frame.height


def _is_sideways(frame: VideoFrame) -> bool:
    return frame.rotation % 180 == QUARTER_TURN


def _preview(request: dict[str, Any], opened: InputContainer, stream: VideoStream, duration: float | None) -> Decoded:
    """Return frames from the whole video as one animation."""
    moments = _moments(request["frames"], duration)
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
    """Yield the nearest key frame of each moment, which is exact enough for a long video."""
    for moment in moments:
        opened.seek(_place(stream, moment), stream=stream)
        yield _frame_at(opened, stream, 0.0)


def _frames_at(opened: InputContainer, stream: VideoStream, moments: list[float]) -> Iterator[VideoFrame]:
    """Yield the frame of each moment and decode none twice, which matters where key frames are rare.

    The frames between two moments are decoded, unless the index has a key frame between them to seek to.
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
