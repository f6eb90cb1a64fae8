"""Memory stays flat, however large an object is."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.s3_server import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from tests.storages import KINDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.s3_server import S3Server

MEGABYTES = 80
PROGRAM = """
import asyncio, resource, sys
from longtake.settings import Settings
from longtake.adapters.storage import open_storage

async def chunks(count):
    for _ in range(count):
        yield bytes(65536)

async def main(url, key_id, secret, megabytes):
    storage = open_storage(Settings(storage_url=url, s3_access_key_id=key_id, s3_secret_access_key=secret))
    await storage.put_stream("results/a/small.mp4", chunks(16 * 16), "video/mp4", most_bytes=10**9)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stored = await storage.put_stream("results/a/large.mp4", chunks(megabytes * 16), "video/mp4", most_bytes=10**9)
    read = 0
    async for chunk in storage.read("results/a/large.mp4"):
        read += len(chunk)
    assert read == stored.size == megabytes * 2**20
    await storage.delete(["results/a/large.mp4"])
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)

asyncio.run(main(*sys.argv[1:4], int(sys.argv[4])))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_an_upload_of_80_mb_takes_a_few_parts_of_memory(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url, keys = f"file:{tmp_path}/objects", ("", "")
    if kind == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        url, keys = server.url("memory"), (ACCESS_KEY_ID, SECRET_ACCESS_KEY)
    command = [sys.executable, "-c", PROGRAM, url, *keys, str(MEGABYTES)]
    grown = int(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)
    assert grown < 40
