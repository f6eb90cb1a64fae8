"""DecoderPool: real children, real files, hostile ones among them. Whatever a file is, the parent lives and goes on."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import struct
import sys
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from PIL import Image

from longtake.adapters.decoder import pool
from longtake.adapters.decoder.errors import DecoderFailed, DecodersBusy, MediaRefused
from longtake.adapters.decoder.pool import DecoderPool, MemoryFile
from longtake.adapters.decoder.protocol import BLOCK, MOST_PIXELS, DecodeRequest
from longtake.adapters.net.errors import ConnectionLost
from longtake_sandbox.media import draw_clip, encode_clip
from tests.wait import PATIENCE_SECONDS

STILL = DecodeRequest("still", "video/mp4")


class Bytes:
    """A file in memory that counts what is read of it."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.size = len(body)

    async def read(self, offset: int, length: int) -> bytes:
        return self.body[offset : offset + length]


class Breaking(Bytes):
    """A source that is lost in the middle."""

    async def read(self, offset: int, length: int) -> bytes:
        if offset:
            raise ConnectionLost("The connection was lost.")
        return await super().read(offset, length)


class Endless(Bytes):
    """A source that never answers."""

    async def read(self, offset: int, length: int) -> bytes:
        await asyncio.Event().wait()
        return await super().read(offset, length)


@pytest_asyncio.fixture
async def decoders() -> AsyncIterator[DecoderPool]:
    made = DecoderPool(1, wall_seconds=30.0)
    yield made
    await made.close()


def drawn(size: tuple[int, int], form: str, mode: str = "RGB") -> bytes:
    out = io.BytesIO()
    picture = Image.linear_gradient("L").resize(size)
    (picture if mode == "L" else picture.convert(mode)).save(out, form)
    return out.getvalue()


def noisy_film(seconds: int, size: tuple[int, int], *, faststart: bool) -> bytes:
    """Return a clip that cannot be made small: every frame is other noise."""
    frames = (Image.effect_noise(size, 90 + number % 7).convert("RGB") for number in range(24 * seconds))
    return encode_clip(frames, size, faststart=faststart)


def bomb(width: int, height: int) -> bytes:
    """Return a PNG of a few kilobytes that unpacks to gigabytes."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(100_000)))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("faststart", [True, False])
async def test_a_frame_of_a_video_fills_the_size(decoders: DecoderPool, faststart: bool) -> None:
    made = await decoders.decode(STILL, Bytes(draw_clip("a fox", "9:16", faststart=faststart)))
    picture = Image.open(io.BytesIO(made.picture))
    assert (picture.format, picture.size) == ("JPEG", (960, 540))
    assert made.height > made.width
    assert made.duration_seconds == pytest.approx(2, abs=2.1)
    assert 0 < len(made.placeholder) < 150
    assert Image.open(io.BytesIO(made.placeholder)).format == "WEBP"


async def test_a_decoder_needs_no_folder_to_start_in(
    decoders: DecoderPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.rmdir(tmp_path)  # noqa: PTH106 - pathlib is refused in a coroutine
    made = await decoders.decode(DecodeRequest("small", "image/png", 100, 100), MemoryFile(drawn((300, 500), "PNG")))
    assert Image.open(io.BytesIO(made.picture)).format == "WEBP"


async def test_whoever_waits_too_long_for_a_decoder_is_told_so() -> None:
    busy = DecoderPool(1, place_seconds=0.05)
    waiting = asyncio.create_task(busy.decode(STILL, Endless(b"x" * 100)))
    await asyncio.sleep(0)
    with pytest.raises(DecodersBusy):
        await busy.decode(STILL, Bytes(b"x" * 100))
    waiting.cancel()
    await asyncio.wait({waiting})
    # The place is free again.
    with pytest.raises(MediaRefused):
        await busy.decode(STILL, Bytes(b"x" * 100))
    await busy.close()


@pytest.mark.parametrize("faststart", [True, False])
async def test_a_small_part_of_a_long_video_is_enough(decoders: DecoderPool, faststart: bool) -> None:
    body = noisy_film(4, (640, 360), faststart=faststart)
    made = await decoders.decode(STILL, Bytes(body))
    assert len(body) > 5_000_000
    assert made.bytes_read < 0.15 * len(body)


async def test_a_preview_moves(decoders: DecoderPool) -> None:
    made = await decoders.decode(
        DecodeRequest("preview", "video/mp4"), Bytes(draw_clip("a fox", "16:9", faststart=True))
    )
    picture = Image.open(io.BytesIO(made.picture))
    assert (picture.format, picture.size) == ("WEBP", (320, 180))
    assert getattr(picture, "n_frames", 1) > 5


@pytest.mark.parametrize(
    ("content_type", "form", "mode"),
    [
        ("image/png", "PNG", "RGBA"),
        ("image/png", "PNG", "L"),
        ("image/jpeg", "JPEG", "RGB"),
        ("image/jpeg", "JPEG", "CMYK"),
        ("image/webp", "WEBP", "RGB"),
        ("image/gif", "GIF", "L"),
    ],
)
async def test_pictures_of_every_kind(decoders: DecoderPool, content_type: str, form: str, mode: str) -> None:
    body = drawn((300, 500), form, mode)
    made = await decoders.decode(DecodeRequest("still", content_type, 320, 180), Bytes(body))
    assert (made.width, made.height, made.duration_seconds) == (300, 500, None)
    assert Image.open(io.BytesIO(made.picture)).size == (320, 180)
    checked = await decoders.decode(DecodeRequest("check", content_type), Bytes(body))
    assert (checked.width, checked.height, checked.picture) == (300, 500, b"")


async def test_a_picture_is_shown_as_its_camera_was_held(decoders: DecoderPool) -> None:
    out = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (400, 200), "red").save(out, "JPEG", exif=exif)
    made = await decoders.decode(DecodeRequest("still", "image/jpeg"), Bytes(out.getvalue()))
    assert (made.width, made.height) == (200, 400)


@pytest.mark.parametrize(
    ("name", "content_type", "body"),
    [
        ("truncated video", "video/mp4", draw_clip("a fox", "16:9", faststart=False)[:9_000]),
        ("truncated PNG", "image/png", drawn((900, 900), "PNG", "RGB")[:-400]),
        ("a PNG that ends in zeros", "image/png", drawn((900, 900), "PNG", "RGB")[:-400] + bytes(400)),
        ("truncated JPEG", "image/jpeg", drawn((900, 900), "JPEG")[:-900]),
        ("one byte", "video/mp4", b"x"),
        ("HTML", "video/mp4", b"<html><body>not found</body></html>" * 50),
        ("a playlist", "video/mp4", b"#EXTM3U\n#EXTINF:10,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n"),
        ("SVG", "image/png", b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>'),
        ("a JPEG called PNG", "image/png", drawn((300, 300), "JPEG")),
        ("sound alone", "video/webm", b"\x1a\x45\xdf\xa3" + bytes(500)),
    ],
)
async def test_what_is_broken_is_refused_and_the_decoder_lives(
    decoders: DecoderPool, name: str, content_type: str, body: bytes
) -> None:
    with pytest.raises(MediaRefused, match=r"damaged|decoded"):
        await decoders.decode(DecodeRequest("still", content_type), Bytes(body))
    [idle] = decoders._idle
    await decoders.decode(STILL, Bytes(draw_clip("a fox", "16:9", faststart=True)))
    assert decoders._idle == [idle], "the same child went on"


async def test_a_bomb_is_not_unpacked(decoders: DecoderPool) -> None:
    with pytest.raises(MediaRefused, match=f"{MOST_PIXELS:,}") as refused:
        await decoders.decode(DecodeRequest("still", "image/png"), Bytes(bomb(50_000, 50_000)))
    assert refused.value.facts["reason"] == "too large"
    [idle] = decoders._idle
    peak = _peak_kilobytes(idle._process.pid)
    assert peak < 200_000


async def test_too_much_processor_time_ends_the_child_and_not_the_parent() -> None:
    decoders = DecoderPool(1, processor_seconds=0.05)
    body = Bytes(draw_clip("a fox", "16:9", faststart=True))
    # The system counts in whole seconds: so many large frames need many of them, whatever the processor.
    costly = Bytes(noisy_film(1, (1920, 1080), faststart=True))
    with pytest.raises(DecoderFailed, match="stopped by its limits"):
        await decoders.decode(DecodeRequest("preview", "video/mp4", frames=2_000), costly)
    decoders._processor_seconds = 20.0
    await decoders.decode(STILL, body)
    await decoders.close()


async def test_a_source_that_never_answers_ends_with_the_time_limit() -> None:
    decoders = DecoderPool(1, wall_seconds=0.3)
    with pytest.raises(DecoderFailed, match=r"more than 0\.3 s"):
        await decoders.decode(STILL, Endless(b"x" * 1000))
    assert decoders._idle == []
    await decoders.close()


async def test_the_trouble_of_a_source_is_told_as_it_is(decoders: DecoderPool) -> None:
    with pytest.raises(ConnectionLost):
        await decoders.decode(STILL, Breaking(noisy_film(1, (640, 360), faststart=False)))
    assert len(decoders._idle) == 1, "it is not the decoder's fault"


async def test_a_child_that_is_killed_is_replaced(decoders: DecoderPool) -> None:
    body = Bytes(draw_clip("a fox", "16:9", faststart=True))
    await decoders.decode(STILL, body)
    os.kill(decoders._idle[0]._process.pid, signal.SIGKILL)
    await decoders._idle[0]._process.wait()
    with pytest.raises(DecoderFailed):
        await decoders.decode(STILL, body)
    assert (await decoders.decode(STILL, body)).picture


async def test_a_caller_that_gives_up_leaves_no_child_behind() -> None:
    decoders = DecoderPool(1)
    asked = asyncio.Event()

    class Waiting(Endless):
        async def read(self, offset: int, length: int) -> bytes:
            asked.set()
            return await super().read(offset, length)

    making = asyncio.create_task(decoders.decode(STILL, Waiting(b"x" * 1000)))
    await asyncio.wait_for(asked.wait(), PATIENCE_SECONDS)
    assert len(_children()) == 1
    making.cancel()
    await asyncio.wait([making])
    assert _children() == []
    await decoders.close()


async def test_no_more_children_than_places() -> None:
    decoders = DecoderPool(2)
    body = Bytes(draw_clip("a fox", "16:9", faststart=True))
    most = 0

    async def one() -> None:
        nonlocal most
        await decoders.decode(STILL, body)
        most = max(most, len(_children()))

    await asyncio.gather(*(one() for _ in range(8)))
    assert most <= 2
    await decoders.close()
    assert _children() == []


def _peak_kilobytes(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def _children() -> list[int]:
    """Return the decoders among this process's children."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                command = (entry / "cmdline").read_bytes()
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == os.getpid() and b"longtake.adapters.decoder.child" in command:
                found.append(int(entry.name))
    return found


async def test_a_small_copy_has_the_whole_picture_and_comes_the_same_whether_its_file_goes_along(
    decoders: DecoderPool,
) -> None:
    out = io.BytesIO()
    Image.linear_gradient("L").resize((424, 600)).convert("RGB").save(out, "JPEG")
    request = DecodeRequest("small", "image/jpeg", width=200, height=300, quality=75)
    along = await decoders.decode(request, MemoryFile(out.getvalue()))
    asked = await decoders.decode(request, Bytes(out.getvalue()))
    assert along.picture == asked.picture
    assert (along.bytes_read, asked.bytes_read) == (0, len(out.getvalue()))
    with Image.open(io.BytesIO(along.picture)) as small:
        assert (small.format, small.size, along.width, along.height) == ("WEBP", (212, 300), 424, 600)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((250, 375), (250, 375)),
        ((251, 375), (200, 299)),
        ((500, 750), (250, 375)),
        ((780, 1170), (200, 300)),
        ((40, 60), (40, 60)),
        ((3_000, 100), (200, 7)),
    ],
)
async def test_a_small_copy_is_about_as_large_as_was_wished(
    decoders: DecoderPool, size: tuple[int, int], expected: tuple[int, int]
) -> None:
    out = io.BytesIO()
    Image.linear_gradient("L").resize(size).convert("RGB").save(out, "JPEG")
    made = await decoders.decode(
        DecodeRequest("small", "image/jpeg", width=200, height=300), MemoryFile(out.getvalue())
    )
    with Image.open(io.BytesIO(made.picture)) as small:
        assert (small.size, made.width, made.height) == (expected, *size)


@pytest.mark.parametrize("body", [b"", b"\xff\xd8\xff", b"<html>"])
async def test_what_goes_along_and_is_no_picture_is_refused(decoders: DecoderPool, body: bytes) -> None:
    with pytest.raises(MediaRefused):
        await decoders.decode(DecodeRequest("small", "image/jpeg"), MemoryFile(body))


GREEDY_CHILD = """
import sys
from longtake.adapters.decoder.protocol import pack, receive
size = receive(sys.stdin.buffer)[0]["size"]
sys.stdout.buffer.write(pack({"read": 0, "length": size}))
sys.stdout.buffer.flush()
receive(sys.stdin.buffer)
"""


async def test_a_child_that_was_taken_over_cannot_fill_its_parents_memory(
    decoders: DecoderPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    class Large(Bytes):
        async def read(self, offset: int, length: int) -> bytes:
            asked.append(length)
            return await super().read(offset, length)

    monkeypatch.setattr(pool, "COMMAND", (sys.executable, "-I", "-c", GREEDY_CHILD))
    with pytest.raises(DecoderFailed):
        await decoders.decode(STILL, Large(bytes(BLOCK + 1)))
    assert asked == []
    assert decoders._idle == []
