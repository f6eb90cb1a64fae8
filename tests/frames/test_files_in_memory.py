"""Files in memory, handed to decoders several at a time: nobody is harmed by the others."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from PIL import Image

from longtake.adapters.decoder import pool
from longtake.adapters.decoder.errors import DecoderFailed, DecodersBusy, MediaRefused
from longtake.adapters.decoder.pool import FILES_AT_ONCE, DecoderPool, MemoryFile
from longtake.adapters.decoder.protocol import DecodeRequest
from tests.frames.test_decoders import STILL, Endless

SMALL = DecodeRequest("small", "image/jpeg", width=200, height=300, quality=75)


@pytest_asyncio.fixture
async def decoders() -> AsyncIterator[DecoderPool]:
    made = DecoderPool(1, wall_seconds=30.0)
    yield made
    await made.close()


@pytest.fixture
def posters() -> list[MemoryFile]:
    """A few more than a decoder is told of at once, no two alike."""
    found = []
    for number in range(FILES_AT_ONCE + 4):
        out = io.BytesIO()
        Image.new("RGB", (40 + number, 60), (10 * number, 0, 0)).save(out, "JPEG")
        found.append(MemoryFile(out.getvalue()))
    return found


async def test_files_that_are_handed_over_together_each_have_their_own_answer(
    decoders: DecoderPool, posters: list[MemoryFile]
) -> None:
    broken = MemoryFile(posters[0].body[:100])
    files = [*posters[:3], broken, *posters[3:]]
    answers = await asyncio.gather(*(decoders.decode(SMALL, one) for one in files), return_exceptions=True)
    assert [getattr(one, "width", type(one)) for one in answers] == [
        40,
        41,
        42,
        MediaRefused,
        *range(43, 40 + len(posters)),
    ]
    assert len(decoders._idle) == 1


DEADLY_CHILD = """
import sys, time
from longtake.adapters.decoder.protocol import pack, receive
while True:
    told, body = receive(sys.stdin.buffer)
    if body == b"deadly":
        sys.exit(9)
    if body == b"nonsense":
        sys.stdout.buffer.write(pack([]))
    if body == b"slow":
        time.sleep(60)
    facts = {"width": len(body), "height": 1, "duration_seconds": None}
    sys.stdout.buffer.write(pack({"made": facts, "placeholder": 0}))
    sys.stdout.buffer.flush()
"""


@pytest.fixture
def deadly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "COMMAND", (sys.executable, "-I", "-c", DEADLY_CHILD))


@pytest.mark.usefixtures("deadly")
@pytest.mark.parametrize("bad", [b"deadly", b"nonsense"])
async def test_only_the_file_a_decoder_died_of_has_failed(decoders: DecoderPool, bad: bytes) -> None:
    files = [b"x", bad, b"xx", b"xxx", bad, b"xxxxx"]
    answers = await asyncio.gather(*(decoders.decode(SMALL, MemoryFile(one)) for one in files), return_exceptions=True)
    assert [getattr(one, "width", type(one)) for one in answers] == [1, DecoderFailed, 2, 3, DecoderFailed, 5]


@pytest.mark.usefixtures("deadly")
async def test_slow_files_take_no_more_time_of_others_than_a_wait_for_a_decoder() -> None:
    decoders = DecoderPool(1, place_seconds=0.5, wall_seconds=0.7)
    files = [MemoryFile(b"slow"), MemoryFile(b"slow"), MemoryFile(b"x")]
    answers = await asyncio.gather(*(decoders.decode(SMALL, one) for one in files), return_exceptions=True)
    await decoders.close()
    assert [type(one) for one in answers] == [DecoderFailed, DecodersBusy, DecodersBusy]


async def test_nobody_waits_for_decoders_that_are_closed(decoders: DecoderPool, posters: list[MemoryFile]) -> None:
    async with decoders._places:
        waiting = asyncio.create_task(decoders.decode(SMALL, posters[0]))
        await asyncio.sleep(0)
        await decoders.close()
        with pytest.raises(DecodersBusy, match="closed"):
            await waiting


async def test_whoever_comes_when_the_last_file_was_just_answered_is_served_as_well(posters: list[MemoryFile]) -> None:
    decoders = DecoderPool(1, place_seconds=3.0)
    widths = [(await decoders.decode(SMALL, one)).width for one in posters[:3]]
    await decoders.close()
    assert widths == [40, 41, 42]


async def test_whoever_gives_up_takes_nothing_from_those_handed_over_with_it(
    decoders: DecoderPool, posters: list[MemoryFile]
) -> None:
    tasks = [asyncio.create_task(decoders.decode(SMALL, one)) for one in posters]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [getattr(one, "width", None) for one in answers[1::2]] == list(range(41, 40 + len(posters), 2))
    assert {type(one) for one in answers[::2]} == {asyncio.CancelledError}
    assert (await decoders.decode(SMALL, posters[0])).width == 40


async def test_files_in_memory_wait_for_a_decoder_only_so_long(posters: list[MemoryFile]) -> None:
    decoders = DecoderPool(1, place_seconds=0.05)
    first = asyncio.create_task(decoders.decode(STILL, Endless(b"x" * 1000)))
    await asyncio.sleep(0)
    with pytest.raises(DecodersBusy):
        await decoders.decode(SMALL, posters[0])
    first.cancel()
    await asyncio.wait([first])
    assert (await decoders.decode(SMALL, posters[0])).width == 40
    await decoders.close()


async def test_a_decoder_that_cannot_be_started_is_told_to_all_who_wait(
    decoders: DecoderPool, posters: list[MemoryFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(pool, "COMMAND", ("/nowhere/at/all",))
        answers = await asyncio.gather(*(decoders.decode(SMALL, one) for one in posters), return_exceptions=True)
        assert {type(one) for one in answers} == {FileNotFoundError}
    assert (await decoders.decode(SMALL, posters[0])).width == 40
