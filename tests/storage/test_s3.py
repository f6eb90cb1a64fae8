"""What only an S3 server can do or refuse: signatures, expiry, unfinished uploads, and not answering."""

from __future__ import annotations

import asyncio
import logging
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from longtake.adapters.storage.errors import StorageRefused, StorageUnavailable
from longtake.adapters.storage.s3 import S3Storage, parse_s3_url
from longtake.adapters.storage.storage import PART_BYTES
from tests.s3_server import ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY
from tests.storages import chunked, s3_storage
from tests.wait import PATIENCE_SECONDS, until, wait_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.s3_server import S3Server

KEY = "results/one/token.png"
LARGE = b"x" * (2 * PART_BYTES + 1)


def fetch(url: str) -> tuple[int, bytes, dict[str, str]]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310 - our own server
            return answer.status, answer.read(), {name.lower(): value for name, value in answer.headers.items()}
    except urllib.error.HTTPError as error:
        with error:
            return error.code, b"", {}


async def test_a_signed_address_works_without_keys_for_one_object_and_expires_soon(s3_server: S3Server) -> None:
    """A18: signed links are short-lived and for one object."""
    storage = s3_storage(s3_server)
    await storage.put(KEY, b"the bytes", "image/png", file_name="asset.png")
    await storage.put("results/two/token.png", b"others", "image/png")
    url = await storage.signed_url(KEY, 2)
    assert url is not None
    status, body, headers = fetch(url)
    assert (status, body, headers["content-type"]) == (200, b"the bytes", "image/png")
    assert headers["content-disposition"] == 'inline; filename="asset.png"'
    assert fetch(url.replace("results/one", "results/two"))[0] == 403
    assert fetch(url.partition("?")[0])[0] == 403
    assert fetch(url[:-1] + ("0" if url[-1] != "0" else "1"))[0] == 403
    # The server's clock counts whole seconds.
    assert wait_for(lambda: fetch(url)[0], "the address has expired", lambda status: status != 200) == 403


async def test_a_wrong_secret_is_refused_with_what_to_do(s3_server: S3Server) -> None:
    storage = s3_storage(s3_server, secret="not-the-secret-of-the-tests")
    with pytest.raises(StorageRefused, match=f"denies access to the bucket {BUCKET}") as caught:
        await storage.check()
    assert "LONGTAKE_S3_SECRET_ACCESS_KEY" in caught.value.hint
    with pytest.raises(StorageRefused):
        await storage.put_stream(KEY, chunked(LARGE), "video/mp4", most_bytes=len(LARGE))


async def test_no_error_contains_a_secret_or_a_signature(s3_server: S3Server, caplog: pytest.LogCaptureFixture) -> None:
    """A28: secrets in errors, logs and files."""
    caplog.set_level(logging.DEBUG)
    storage = s3_storage(s3_server, secret="canary-secret-of-the-tests")
    with pytest.raises(StorageRefused) as caught:
        await storage.get(KEY, 10)
    told = f"{caught.value!r} {caught.value.hint} {caught.value.__cause__!r} {caplog.text}"
    assert "canary" not in told
    assert "Signature=" not in told
    assert "http" not in caught.value.message


async def test_a_bucket_that_is_not_there_is_told_as_such(s3_server: S3Server) -> None:
    address = parse_s3_url(f"s3://no-such-bucket?endpoint={s3_server.endpoint}")
    storage = S3Storage(address, access_key_id=ACCESS_KEY_ID, secret_access_key=SECRET_ACCESS_KEY)
    with pytest.raises(StorageRefused, match="There is no bucket no-such-bucket"):
        await storage.check()


async def test_failed_and_cancelled_uploads_leave_no_parts(s3_server: S3Server, s3_folder: str) -> None:
    """F33: abandoned uploads."""
    storage = s3_storage(s3_server, s3_folder)
    with pytest.raises(RuntimeError):
        await storage.put_stream(KEY, chunked(LARGE, error=RuntimeError()), "video/mp4", most_bytes=len(LARGE))
    begun = asyncio.Event()

    async def stalls() -> AsyncIterator[bytes]:
        async for chunk in chunked(LARGE):
            yield chunk
        await until(lambda: s3_server.unfinished_uploads(s3_folder), "the upload has begun")
        begun.set()
        await asyncio.Event().wait()

    upload = asyncio.create_task(storage.put_stream(KEY, stalls(), "video/mp4", most_bytes=len(LARGE) + 1))
    await begun.wait()
    upload.cancel()
    await asyncio.wait({upload})
    assert upload.cancelled()
    assert s3_server.unfinished_uploads(s3_folder) == []


async def test_a_store_that_is_down_is_unavailable_at_once() -> None:
    """F31: the storage fails or is slow."""
    storage = S3Storage(
        parse_s3_url("s3://bucket?endpoint=http://127.0.0.1:9"),
        access_key_id="x",
        secret_access_key="y",
        request_seconds=3600,  # what is not told at once would hang
    )
    with pytest.raises(StorageUnavailable):
        await storage.put(KEY, b"x", "image/png")
    with pytest.raises(StorageUnavailable):
        await storage.put_stream(KEY, chunked(LARGE), "video/mp4", most_bytes=len(LARGE))
    with pytest.raises(StorageUnavailable):
        await storage.get(KEY, 10)


async def test_a_silent_store_is_unavailable_at_the_time_limit() -> None:
    """F30: half-open connections."""
    held: list[asyncio.StreamWriter] = []

    async def say_nothing(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    address = parse_s3_url(f"s3://bucket?endpoint=http://127.0.0.1:{port}")
    storage = S3Storage(address, access_key_id="x", secret_access_key="y", request_seconds=0.4)
    for call in (
        storage.put(KEY, b"x", "image/png"),
        storage.facts(KEY),
        storage.put_stream(KEY, chunked(LARGE), "video/mp4", most_bytes=len(LARGE)),
    ):
        with pytest.raises(StorageUnavailable):
            await call
    assert held
    for writer in held:
        writer.close()
    server.close()


@pytest.mark.parametrize("status", [500, 502, 503, 429])
async def test_a_failing_store_is_unavailable(status: int) -> None:
    """F31: the storage fails or is slow."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            writer.write(f"HTTP/1.1 {status} Trouble\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            await writer.drain()
            writer.close()
            return

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    address = parse_s3_url(f"s3://bucket?endpoint=http://127.0.0.1:{port}")
    storage = S3Storage(address, access_key_id="x", secret_access_key="y", request_seconds=2)
    with pytest.raises(StorageUnavailable):
        await storage.facts(KEY)
    server.close()
