from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from proofs.client.pages import load

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Feeds the parser with chunks of bytes; returns the frames of each way to cut them.
PARSE = """async (ways) => {
    const { FrameParser } = await import("/client/frames.js");
    return ways.map((chunks) => {
        const parser = new FrameParser();
        return chunks.flatMap((chunk) => parser.push(new Uint8Array(chunk)));
    });
}"""


async def parse(context: BrowserContext, origin: str, *ways: list[bytes]) -> Any:
    tab = await load(context, origin)
    return await tab.run(PARSE, [[list(chunk) for chunk in chunks] for chunks in ways])


def frame(data: str, type_: str = "message", id_: str = "") -> dict[str, str]:
    return {"type": type_, "data": data, "id": id_}


@pytest.mark.parametrize(
    ("text", "frames"),
    [
        ("data: one\n\n", [frame("one")]),
        ("data: one\r\rdata: two\r\r", [frame("one"), frame("two")]),
        ("data: one\r\n\r\ndata: two\r\n\r\n", [frame("one"), frame("two")]),
        ("\ufeffdata: after a mark\n\n", [frame("after a mark")]),
        ("data: a\ndata: b\ndata:\n\n", [frame("a\nb\n")]),
        ("data:no space\n\ndata:  two spaces\n\n", [frame("no space"), frame(" two spaces")]),
        ("event: task.created\nid: 0.5\ndata: {}\n\n", [frame("{}", "task.created", "0.5")]),
        ("id: 0.5\ndata: a\n\ndata: keeps the id\n\n", [frame("a", id_="0.5"), frame("keeps the id", id_="0.5")]),
        ("id: 0.5\ndata: a\n\nid\ndata: b\n\n", [frame("a", id_="0.5"), frame("b")]),
        ("id: 0\0.5\ndata: a\n\n", [frame("a")]),
        (": a comment\nretry: 1000\nunknown: x\ndata: a\n\n", [frame("a")]),
        ("event: without data\n\ndata: a\n\n", [frame("a")]),
        ("data: 写 🦊\n\n", [frame("写 🦊")]),
        ("data: one\n\ndata: never ended\n", [frame("one")]),
        ("data: \u2028 is no end of line\n\n", [frame("\u2028 is no end of line")]),
    ],
)
async def test_frames_are_read_as_the_standard_says(
    context: BrowserContext, origin: str, text: str, frames: list[dict[str, str]]
) -> None:
    whole = text.encode()
    bytewise = [bytes([byte]) for byte in whole]
    assert await parse(context, origin, [whole], bytewise) == [frames, frames]


async def test_it_does_not_matter_where_chunks_end(context: BrowserContext, origin: str) -> None:
    chance = random.Random(7)
    pieces, expected = [], []
    for number in range(60):
        lines = [chance.choice(["", "x", "狐 🦊", "a: b", "\ufeff"]) + str(number) for _ in range(chance.randint(1, 4))]
        ending = chance.choice(["\n", "\r", "\r\n"])
        pieces.append(
            "".join(f"{name}{ending}" for name in [f"id: 0.{number}", *(f"data: {one}" for one in lines), ""])
        )
        expected.append(frame("\n".join(lines), id_=f"0.{number}"))
    whole = "".join(pieces).encode()
    ways = []
    for _ in range(200):
        cuts = sorted(chance.sample(range(1, len(whole)), chance.randint(1, 60)))
        ways.append([whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)])
    found = await parse(context, origin, *ways)
    # A CR that ends a frame and an LF that begins the next chunk are one end of line, so nothing may differ.
    assert all(one == expected for one in found), json.dumps(next(one for one in found if one != expected))[:500]


async def test_a_frame_without_an_end_is_refused(context: BrowserContext, origin: str) -> None:
    tab = await load(context, origin)
    script = """async () => {
        const { FrameParser } = await import("/client/frames.js");
        const parser = new FrameParser();
        try { for (;;) parser.push(new TextEncoder().encode("data: " + "x".repeat(100000))); }
        catch (error) { return error.name; }
    }"""
    assert await tab.run(script) == "RangeError"
