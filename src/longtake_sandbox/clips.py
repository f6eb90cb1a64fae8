"""Short clips drawn from prompts: H.264 in MP4, with the index before or after the frames."""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import av
from PIL import Image, ImageDraw

from longtake_sandbox.pictures import digest, draw_picture, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator

FRAMES_PER_SECOND = 24
LONG_SIDE = 640
SHORTEST_SECONDS = 2


def draw_clip(prompt: str, ratio: str, *, faststart: bool, references: tuple[bytes, ...] = ()) -> bytes:
    """Draw a clip of 2 to 4 seconds from the prompt."""
    seed = digest(prompt)
    size = size_of(ratio, LONG_SIDE)
    count = FRAMES_PER_SECOND * (SHORTEST_SECONDS + seed[7] % 3)
    return encode_clip(_frames(draw_picture(prompt, size, references), count, seed), size, faststart=faststart)


def is_faststart(prompt: str, choice: str) -> bool:
    """Return whether the index of a prompt's clip is in front. With ``half`` the prompt decides."""
    return choice == "yes" or (choice == "half" and digest(prompt)[8] % 2 == 0)


def encode_clip(frames: Iterator[Image.Image], size: tuple[int, int], *, faststart: bool) -> bytes:
    """Encode frames. This needs a real file: FFmpeg moves the index to the front only there."""
    with tempfile.TemporaryDirectory(prefix="sandbox-clip-") as folder:
        path = Path(folder) / "clip.mp4"
        options = {"movflags": "faststart"} if faststart else {}
        with av.open(str(path), "w", format="mp4", options=options) as container:
            stream = container.add_stream("libx264", rate=Fraction(FRAMES_PER_SECOND))
            stream.width, stream.height = size
            stream.pix_fmt = "yuv420p"
            stream.thread_count = 1
            stream.options = {"preset": "ultrafast", "crf": "28"}
            for frame in frames:
                container.mux(stream.encode(av.VideoFrame.from_image(frame)))  # type: ignore[no-untyped-call]
            container.mux(stream.encode(None))
        return path.read_bytes()


def _frames(background: Image.Image, count: int, seed: bytes) -> Iterator[Image.Image]:
    """Yield frames on which a disc crosses the picture, so that each differs from the next."""
    width, height = background.size
    radius = height // 10
    colour = tuple(255 - value for value in seed[0:3])
    for number in range(count):
        frame = background.copy()
        x = int(width * number / count)
        y = height // 3
        ImageDraw.Draw(frame).ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
        yield frame
