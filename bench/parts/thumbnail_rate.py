"""How many thumbnails a core makes: our decoders beside the ffmpeg command line, on the same files.

A decoder is measured from its start, over 200 files; it would live for ten times as many. ffmpeg is started for each
file, as it comes and with a single thread. Both make a JPEG of 960×540 of the frame at 0.1 s. Pillow's quality 95 and
ffmpeg's 1 make files of nearly the same size; how far each is from the frame itself is measured beside it.
"""

import io
import math
import subprocess
import tempfile
from functools import partial
from pathlib import Path

from bench import children
from bench.assets_clips import write_clip
from bench.assets_places import source
from bench.assets_stills import FILTER, command
from bench.ground import Ground, reason, say
from bench.rows import Measured, Row, compared

SIZES = {"640×360": (640, 360), "1280×720": (1280, 720), "1920×1080": (1920, 1080)}
CLIPS = 6
SECONDS = 5.0
GRAIN = 0.15
#: A decoder is replaced after so many.
FILES = 200
FILES_OF_FFMPEG = 50
PATIENCE = 180.0
AT_ADDRESSES = "1280×720"
FFMPEG, SINGLE = "ffmpeg, a process for each", "ffmpeg -threads 1, a process for each"
GOAL = ">= 1.5"


def rows(ground: Ground) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="longtake-bench-") as folder:
        keys = {label: write_clips(Path(folder), size) for label, size in SIZES.items()}
        result = [row for label in SIZES for row in rows_of_files(ground, folder, label, keys[label])]
        result += rows_of_addresses(ground, Path(folder), keys[AT_ADDRESSES])
        return result + rows_of_quality(folder, keys[AT_ADDRESSES][0])


def write_clips(folder: Path, size: tuple[int, int]) -> list[str]:
    """Write clips where our storage would have them; return their keys. Half of them have their index at the end."""
    keys = [f"results/{size[1]}-{number}.mp4" for number in range(CLIPS)]
    for number, key in enumerate(keys):
        write_clip(folder / key, size, SECONDS, grain=GRAIN, faststart=number % 2 == 0)
    return keys


def rows_of_files(ground: Ground, folder: str, label: str, keys: list[str]) -> list[Row]:
    name = f"thumbnails for a second of processor time, {label}"
    paths = [f"{folder}/{key}" for key in keys]
    stills = partial(children.call, "bench.assets_stills:of_copies", PATIENCE)
    figures = ground.rounds({
        name: partial(stills, folder=folder, keys=keys, count=ground.options.number(FILES)),
        FFMPEG: ffmpeg(ground, paths),
        SINGLE: ffmpeg(ground, paths, "-threads", "1"),
    })  # fmt: skip
    return [
        compared(name, figures[name], "a second", peer, figures[peer], goal)
        for peer, goal in ((FFMPEG, GOAL), (SINGLE, None))
    ]


def rows_of_addresses(ground: Ground, folder: Path, keys: list[str]) -> list[Row]:
    name = f"the same of files at addresses, {AT_ADDRESSES}"
    urls = []
    for key in keys:
        target = source(ground).folder / Path(key).name
        target.write_bytes((folder / key).read_bytes())
        urls.append(source(ground).url(target.name))
    stills = partial(children.call, "bench.assets_stills:of_sources", PATIENCE)
    figures = ground.rounds({
        name: partial(stills, urls=urls, count=ground.options.number(FILES)),
        FFMPEG: ffmpeg(ground, urls),
    })  # fmt: skip
    return [compared(name, figures[name], "a second", FFMPEG, figures[FFMPEG], None)]


def ffmpeg(ground: Ground, inputs: list[str], *options: str) -> "partial[float]":
    call = partial(children.call, "bench.assets_stills:of_ffmpeg", PATIENCE)
    return partial(call, inputs=inputs, count=ground.options.number(FILES_OF_FFMPEG), options=list(options))


def rows_of_quality(folder: str, key: str) -> list[Row]:
    """Size and likeness of both pictures; the measure of likeness is the frame as ffmpeg scales it, without loss."""
    name = f"one thumbnail, {AT_ADDRESSES}"
    try:
        ours, theirs, frame = pictures(folder, key)
        likeness = [noise_ratio(one, frame) for one in (ours, theirs)]
    except Exception as failure:  # noqa: BLE001 - whatever it was, it is the reason for the missing figures
        missing = Measured(reason=reason(failure))
        return [compared(f"{name}: size", missing, "KB", "ffmpeg -q:v 1", missing, None)]
    say(f"  {len(ours)} and {len(theirs)} bytes, {likeness[0]:.2f} and {likeness[1]:.2f} dB")
    sizes = [Measured(len(one) / 1000) for one in (ours, theirs)]
    return [
        compared(f"{name}: size", sizes[0], "KB", "ffmpeg -q:v 1", sizes[1], None),
        compared(f"{name}: PSNR", Measured(likeness[0]), "dB", "ffmpeg -q:v 1", Measured(likeness[1]), None),
    ]


def pictures(folder: str, key: str) -> tuple[bytes, bytes, bytes]:
    ours, theirs, frame = (Path(folder) / name for name in ("ours.jpg", "theirs.jpg", "frame.png"))
    path = f"{folder}/{key}"
    children.call("bench.assets_stills:write_picture", PATIENCE, folder=folder, key=key, picture=str(ours))
    subprocess.run(command(path, str(theirs)), check=True, stdin=subprocess.DEVNULL)
    without_loss = [command(path, "")[0], "-loglevel", "error", "-ss", "0.1", "-i", path, "-frames:v", "1"]
    subprocess.run([*without_loss, "-vf", FILTER, str(frame)], check=True, stdin=subprocess.DEVNULL)
    return ours.read_bytes(), theirs.read_bytes(), frame.read_bytes()


def noise_ratio(one: bytes, other: bytes) -> float:
    """Return the peak signal-to-noise ratio in decibels."""
    from PIL import Image, ImageChops, ImageStat

    first, second = (Image.open(io.BytesIO(body)).convert("RGB") for body in (one, other))
    squares = ImageStat.Stat(ImageChops.difference(first, second)).sum2
    mean = sum(squares) / (3 * first.width * first.height)
    return 10 * math.log10(255**2 / mean)
