"""What becomes of answers, whole and broken, and how far a request got (A10, F30, F39, F46)."""

from __future__ import annotations

import asyncio
import gzip
import time
import zlib
from collections.abc import Awaitable, Callable

import pytest

from longtake.adapters.net import HttpClient
from longtake.adapters.net.errors import (
    AnswerInvalid,
    AnswerTimedOut,
    AnswerTooLarge,
    AnswerTruncated,
    ConnectFailed,
    ConnectionLost,
    NetError,
)
from tests.net.servers import (
    Received,
    answer,
    hanging_up,
    redirecting,
    running,
    saying,
    saying_and_closing,
    silent,
)
from tests.wait import PATIENCE_SECONDS


async def drip(_request: Received, writer: asyncio.StreamWriter) -> None:
    """Send a byte now and then, for ever."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def endless(_request: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n")
    while True:
        writer.write(bytes(100_000))
        await writer.drain()


async def streamed(client: HttpClient, url: str, *, most_bytes: int = 1000, seconds: float = 5.0) -> bytes:
    async with client.stream("GET", url, seconds=seconds, most_bytes=most_bytes) as found:
        return b"".join([piece async for piece in found.chunks()])


async def whole(client: HttpClient, url: str, *, most_bytes: int = 1000, seconds: float = 5.0) -> bytes:
    return (await client.request("GET", url, most_bytes=most_bytes, seconds=seconds)).body


Read = Callable[..., Awaitable[bytes]]
BOTH = pytest.mark.parametrize("read", [whole, streamed])


async def test_a_request_arrives_as_it_was_meant(client: HttpClient) -> None:
    async with running(saying(answer(201, b'{"a": 1}', {"X-Own": "y"}))) as server:
        url = f"{server.url}/path?x=1"
        found = await client.request("post", url, json={"b": [2]}, params={"y": "ü"}, headers={"A": "b"})
        assert (found.status, found.json(), found.headers["x-own"]) == (201, {"a": 1}, "y")
        received = server.received[0]
        assert (received.method, received.path, received.body) == ("POST", "/path?x=1&y=%C3%BC", b'{"b":[2]}')
        assert received.headers["content-type"] == "application/json"
        assert received.headers["accept-encoding"] == "identity"
        assert received.headers["a"] == "b"
        assert "Longtake" in received.headers["user-agent"]


async def test_what_is_not_json_says_so(client: HttpClient) -> None:
    async with running(saying(answer(200, b"<html>"))) as server:
        found = await client.request("GET", f"{server.url}/x?secret=1")
        with pytest.raises(AnswerInvalid, match=r"/x answered 200 with a body that is not JSON") as caught:
            found.json()
        assert caught.value.sent


async def test_a_stream_has_its_length_and_last_address(client: HttpClient) -> None:
    content = bytes(range(256)) * 1000
    async with running(saying(answer(body=content))) as last, running(redirecting({"/a": f"{last.url}/b"})) as first:
        async with client.stream("GET", f"{first.url}/a", seconds=5, most_bytes=len(content)) as found:
            assert (found.status, found.length, found.url) == (200, len(content), f"{last.url}/b")
            assert b"".join([piece async for piece in found.chunks()]) == content
        async with client.stream("HEAD", f"{last.url}/b", seconds=5, most_bytes=10) as found:
            assert (found.length, [piece async for piece in found.chunks()]) == (len(content), [])


async def test_redirects_are_answers_unless_they_are_to_be_followed(client: HttpClient) -> None:
    async with running(redirecting({"/a": "/b", "/loop": "/loop"})) as server:
        assert (await client.request("GET", f"{server.url}/a")).status == 302
        assert (await client.request("GET", f"{server.url}/a", redirects=1)).body == b"arrived"
        assert (await client.request("POST", f"{server.url}/a", redirects=1)).status == 302
        with pytest.raises(AnswerInvalid, match="after 3 redirects"):
            await client.request("GET", f"{server.url}/loop", redirects=3)
        assert len(server.received) == 1 + 2 + 1 + 4


@BOTH
async def test_an_answer_with_too_many_bytes_is_not_read_to_its_end(client: HttpClient, read: Read) -> None:
    """A10: limits of bytes, time and ratio."""
    async with running(endless) as server, running(saying(answer(body=bytes(1001)))) as announced:
        for url in (server.url, announced.url):
            with pytest.raises(AnswerTooLarge) as caught:
                await read(client, url)
            assert caught.value.sent
    async with running(saying(answer(body=bytes(1000)))) as exact:
        assert len(await read(client, exact.url)) == 1000


@BOTH
async def test_an_answer_that_takes_too_long_is_given_up(client: HttpClient, read: Read) -> None:
    """A10: limits of bytes, time and ratio."""
    async with running(drip) as server:
        begun = time.monotonic()
        with pytest.raises(AnswerTimedOut) as caught:
            await read(client, server.url, most_bytes=10_000_000, seconds=0.3)
        assert caught.value.sent
        # The answer goes on for ever: that it was given up at all shows that there is a limit.
        assert time.monotonic() - begun > 0.2


async def test_the_time_limit_covers_all_redirects_together(client: HttpClient) -> None:
    """A10: Each comes at once, and there is no end of them: a limit for each alone would never be reached."""

    async def lead_on(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(302, headers={"Location": f"/{int(request.path[1:]) + 1}"}))

    async with running(lead_on) as server:
        with pytest.raises(AnswerTimedOut):
            await client.request("GET", f"{server.url}/0", seconds=1.0, redirects=10**9)
        assert len(server.received) > 1
        assert [received.path for received in server.received] == [f"/{one}" for one in range(len(server.received))]


@pytest.mark.parametrize(
    ("content", "refused"),
    [(b"x" * 500_000, AnswerTooLarge), (b"y" * 990, None), (bytes(2_000_000), AnswerTooLarge)],
)
async def test_a_compressed_answer_may_not_exceed_the_limit_unpacked(
    client: HttpClient, content: bytes, refused: type[NetError] | None
) -> None:
    """A10: limits of bytes, time and ratio."""
    for encoding, packed in (("gzip", gzip.compress(content)), ("deflate", zlib.compress(content))):
        async with running(saying(answer(body=packed, headers={"Content-Encoding": encoding}))) as server:
            if refused is None:
                assert await whole(client, server.url) == content
                continue
            with pytest.raises(refused):
                await whole(client, server.url, most_bytes=400_000)


async def test_a_compressed_answer_may_not_exceed_a_ratio(client: HttpClient) -> None:
    """A10: limits of bytes, time and ratio."""
    packed = gzip.compress(bytes(3_000_000))
    async with running(saying(answer(body=packed, headers={"Content-Encoding": "gzip"}))) as server:
        with pytest.raises(AnswerTooLarge, match="decompresses"):
            await whole(client, server.url, most_bytes=100_000_000)


async def test_a_packed_answer_is_whole_or_an_error(client: HttpClient) -> None:
    packed = gzip.compress(b"words " * 10)
    for body, encoding, expected in (
        (packed[:-5], "gzip", AnswerTruncated),
        (b"not packed", "gzip", AnswerInvalid),
        (packed, "br", AnswerInvalid),
    ):
        async with running(saying(answer(body=body, headers={"Content-Encoding": encoding}))) as server:
            with pytest.raises(expected):
                await whole(client, server.url)
            with pytest.raises(AnswerInvalid, match="although the request forbids it"):
                await streamed(client, server.url)


@BOTH
@pytest.mark.parametrize(
    "said",
    [
        answer(body=b"half", headers={"Content-Length": "8"}),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ],
)
async def test_a_truncated_body_is_noticed(client: HttpClient, read: Read, said: bytes) -> None:
    """F39: a truncated body."""
    async with running(saying_and_closing(said)) as server:
        with pytest.raises(AnswerTruncated) as caught:
            await read(client, server.url)
        assert caught.value.sent


async def test_what_is_not_http_is_an_invalid_answer(client: HttpClient) -> None:
    async with running(saying_and_closing(b"SSH-2.0-OpenSSH\r\n\r\n")) as server:
        with pytest.raises(AnswerInvalid):
            await client.request("GET", server.url)


async def test_sent_is_false_while_no_connection_was_made(client: HttpClient) -> None:
    async with running(saying(answer())) as server:
        closed = server.url
    with pytest.raises(ConnectFailed, match="refused") as caught:
        await client.request("POST", closed)
    assert not caught.value.sent


async def test_sent_is_true_once_the_server_may_have_seen_the_request(client: HttpClient) -> None:
    async with running(hanging_up) as hanging, running(silent) as quiet:
        with pytest.raises(ConnectionLost) as lost:
            await client.request("POST", hanging.url, json={})
        with pytest.raises(AnswerTimedOut) as late:
            await client.request("POST", quiet.url, json={}, seconds=0.2)
        assert (lost.value.sent, late.value.sent) == (True, True)
        assert (len(hanging.received), len(quiet.received)) == (1, 1)


async def test_sent_is_false_while_waiting_for_a_free_connection() -> None:
    client = HttpClient(allowed_addresses=["127.0.0.1/32"], most_per_host=1)
    async with running(silent) as server:
        first = asyncio.create_task(client.request("POST", server.url, seconds=1.0))
        await server.asked.wait()
        with pytest.raises(ConnectFailed) as caught:
            await client.request("POST", server.url, seconds=0.2)
        assert not caught.value.sent
        assert len(server.received) == 1
        first.cancel()
    await client.close()


async def test_a_half_open_connection_ends_at_the_time_limit(client: HttpClient) -> None:
    """F30: TCP connects, and then nothing comes: not even TLS."""
    async with running(silent) as server:
        with pytest.raises(ConnectFailed) as caught:
            await client.request("POST", f"https://127.0.0.1:{server.port}/", seconds=0.3)
        assert not caught.value.sent


async def test_a_get_uses_a_kept_connection_and_a_post_one_of_its_own(client: HttpClient) -> None:
    async with running(saying(answer())) as server:
        for _ in range(3):
            await client.request("GET", server.url)
        assert server.connections == 1
        for _ in range(2):
            await client.request("POST", server.url, json={})
        assert server.connections == 3
        # A kept connection that the server closed meanwhile is no failure of a GET.
        server.close_connections()
        assert (await client.request("GET", server.url)).status == 200


async def test_a_thousand_requests_at_once(client: HttpClient) -> None:
    async def patient(_request: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.5)
        writer.write(answer(body=b"x"))

    async with running(patient) as server:
        calls = (client.request("GET", f"{server.url}/{number}", seconds=20) for number in range(1000))
        answers = await asyncio.gather(*calls)
        assert {one.status for one in answers} == {200}
        assert server.connections > 900
        assert len({one.path for one in server.received}) == 1000


async def test_a_closed_client_opens_nothing(client: HttpClient) -> None:
    await client.close()
    with pytest.raises(RuntimeError):
        await client.request("GET", "https://media.example/")


async def test_bytes_that_arrived_before_a_lost_connection_are_handed_out(client: HttpClient) -> None:
    """F39: However long whoever reads takes over what came first: else it would have to be fetched again."""
    go_on, got = asyncio.Event(), bytearray()

    async def break_off(_request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000)
        await asyncio.wait_for(go_on.wait(), PATIENCE_SECONDS)
        writer.write(b"y" * 100_000)
        await writer.drain()
        writer.close()

    async def read_slowly(url: str) -> None:
        async with client.stream("GET", url, seconds=20.0, most_bytes=10**7) as found:
            async for piece in found.chunks():
                got.extend(piece)
                if not go_on.is_set():
                    go_on.set()
                    # Nothing tells when the rest has come and the connection is gone; if not yet, it comes as usual.
                    await asyncio.sleep(0.3)

    async with running(break_off) as server:
        with pytest.raises(AnswerTruncated):
            await read_slowly(server.url)
    assert got == b"x" * 1000 + b"y" * 100_000
