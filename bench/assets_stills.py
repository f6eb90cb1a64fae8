"""Thumbnails of one process after the other, in a child of its own: ours and those of the ffmpeg command line.

What counts is processor time, of the process and of all that it started, for one thumbnail: so it does not matter on
how many cores a contender spreads its work, nor who else uses the machine.
"""

import asyncio
import resource
import subprocess
import tempfile
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longtake.adapters.decoder.protocol import DecodeRequest

#: As the product asks its decoders; quality 1 of ffmpeg is what makes files of the same size as Pillow's 95.
FILTER = "scale=960:540:force_original_aspect_ratio=increase,crop=960:540"
QUALITY = ("-qmin", "1", "-q:v", "1")


def of_copies(folder: str, keys: list[str], count: int) -> float:
    """Return thumbnails for a second of processor time, of files in our storage; the decoder's start is in it."""
    before = spent()
    asyncio.run(make_of_copies(folder, list(islice(cycle(keys), count))))
    return count / (spent() - before)


def of_sources(urls: list[str], count: int) -> float:
    """Return the same of files at their source."""
    before = spent()
    asyncio.run(make_of_sources(list(islice(cycle(urls), count))))
    return count / (spent() - before)


def of_ffmpeg(inputs: list[str], count: int, options: list[str]) -> float:
    """Return the same of the command line: a process for each file, as a shell would start them."""
    with tempfile.TemporaryDirectory(prefix="longtake-bench-") as folder:
        before = spent()
        for number, one in enumerate(islice(cycle(inputs), count)):
            subprocess.run(command(one, f"{folder}/{number}.jpg", *options), check=True, stdin=subprocess.DEVNULL)
        return count / (spent() - before)


def command(source: str, target: str, *options: str) -> list[str]:
    import imageio_ffmpeg

    program: str = imageio_ffmpeg.get_ffmpeg_exe()
    wanted = ["-ss", "0.1", "-i", source, "-frames:v", "1", "-vf", FILTER, *QUALITY]
    return [program, "-loglevel", "error", *options, *wanted, target]


def spent() -> float:
    """Return the processor time of this process and of the children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


async def make_of_copies(folder: str, keys: list[str]) -> bytes:
    """Return the last of them."""
    from longtake.adapters.decoder.pool import DecoderPool
    from longtake.adapters.storage import open_storage
    from longtake.capabilities.media.range_reader import open_stored
    from longtake.settings import Settings

    storage = open_storage(Settings(storage_url=f"file:{folder}"))
    decoders, picture = DecoderPool(1), b""
    try:
        for key in keys:
            picture = (await decoders.decode(still(), await open_stored(storage, key))).picture
        return picture
    finally:
        await decoders.close()


async def make_of_sources(urls: list[str]) -> None:
    from longtake.adapters.decoder.pool import DecoderPool
    from longtake.adapters.net import HttpClient
    from longtake.capabilities.media.range_reader import Spools, open_source

    client, decoders, spools = HttpClient(allowed_addresses=["loopback"]), DecoderPool(1), Spools()
    try:
        for url in urls:
            async with open_source(client, url, {}, spools) as file:
                await decoders.decode(still(), file)
    finally:
        await decoders.close()
        await client.close()


def still() -> "DecodeRequest":
    from longtake.adapters.decoder.protocol import DecodeRequest
    from longtake.capabilities.media import thumbnails

    return DecodeRequest(
        "still",
        "video/mp4",
        thumbnails.WIDTH,
        thumbnails.HEIGHT,
        thumbnails.QUALITY,
        thumbnails.AT_SECONDS,
    )


def write_picture(folder: str, key: str, picture: str) -> None:
    """Write our thumbnail of a file in our storage to a file of its own."""
    Path(picture).write_bytes(asyncio.run(make_of_copies(folder, [key])))
