"""Clips to be measured with: drawn, with the grain that a camera or a model leaves, so that files have a real size."""

import os
from collections.abc import Iterator
from pathlib import Path

from PIL import Image, ImageDraw

FRAMES_A_SECOND = 24
#: So many pictures of noise take turns.
GRAINS = 6


def write_clip(path: Path, size: tuple[int, int], seconds: float, *, grain: float, faststart: bool) -> None:
    """Write a clip of which every frame has other noise; `grain` is its part of the picture."""
    from longtake_sandbox.media import encode_clip

    frames = frames_of(path.name, size, int(seconds * FRAMES_A_SECOND), grain)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_clip(frames, size, faststart=faststart))


def frames_of(prompt: str, size: tuple[int, int], count: int, grain: float) -> Iterator[Image.Image]:
    from longtake_sandbox.media import draw_picture

    drawn = draw_picture(prompt, size)
    grains = [Image.effect_noise(size, 40 + number).convert("RGB") for number in range(GRAINS)]
    scenes = [Image.blend(drawn, one, grain) for one in grains]
    width, height = size
    radius = height // 10
    for number in range(count):
        frame = scenes[number % GRAINS].copy()
        x, y = width * number // count, height // 3
        ImageDraw.Draw(frame).ellipse((x - radius, y - radius, x + radius, y + radius), fill=(200, 60, 30))
        yield frame


def write_large(path: Path, clip: Path, size: int) -> None:
    """Write a file of exactly this size that is a clip and then, as its format allows, nothing of importance."""
    begin = clip.read_bytes()
    left = size - len(begin)
    filling = os.urandom(1024 * 1024)
    with path.open("wb") as file:
        file.write(begin + left.to_bytes(4, "big") + b"free")
        left -= 8
        while left > 0:
            left -= file.write(filling[:left])
