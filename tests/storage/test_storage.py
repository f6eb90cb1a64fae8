"""What every store promises: whole or not at all, the same bytes again, and nothing under keys that are not ours."""

from __future__ import annotations

import asyncio
import hashlib
import random
from typing import TYPE_CHECKING

import pytest

from longtake.adapters.storage.errors import ObjectKeyInvalid, ObjectMissing, ObjectTooLarge
from longtake.adapters.storage.storage import PART_BYTES, NewObject
from tests.storages import chunked, keys_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from longtake.adapters.storage import Storage

KEY = "results/one/token.png"
LARGE = random.Random(1).randbytes(2 * PART_BYTES + 12_345)


class SourceBroke(Exception):
    pass


async def test_bytes_come_back_as_they_were_put(storage: Storage) -> None:
    stored = await storage.put(KEY, b"the bytes", "image/png")
    assert (stored.key, stored.size, stored.checksum) == (KEY, 9, hashlib.sha256(b"the bytes").hexdigest())
    assert await storage.get(KEY, 9) == b"the bytes"


async def test_objects_that_belong_together_are_written_in_one_go(storage: Storage) -> None:
    keys = ["posters/one.jpg", "posters/one-small.webp", "results/one/token.png"]
    await storage.put_all([NewObject(key, key.encode(), "image/png") for key in keys])
    assert [await storage.get(key, 100) for key in keys] == [key.encode() for key in keys]


async def test_the_same_key_again_replaces_the_object(storage: Storage) -> None:
    await storage.put(KEY, b"first and longer", "image/png")
    await storage.put(KEY, b"second", "image/png")
    assert await storage.get(KEY, 100) == b"second"


@pytest.mark.parametrize("size", [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, len(LARGE)])
async def test_a_stream_is_stored_whole_with_its_checksum(storage: Storage, size: int) -> None:
    body = LARGE[:size]
    stored = await storage.put_stream(KEY, chunked(body), "video/mp4", most_bytes=size)
    assert (stored.size, stored.checksum) == (size, hashlib.sha256(body).hexdigest())
    assert await storage.get(KEY, size) == body


@pytest.mark.parametrize("size", [0, 100, len(LARGE)])
async def test_a_source_that_breaks_leaves_nothing_and_its_own_error(storage: Storage, size: int) -> None:
    with pytest.raises(SourceBroke, match="in the middle"):
        await storage.put_stream(
            KEY, chunked(LARGE[:size], error=SourceBroke("in the middle")), "video/mp4", most_bytes=len(LARGE)
        )
    assert await storage.facts(KEY) is None


@pytest.mark.parametrize("size", [101, len(LARGE)])
async def test_a_source_that_does_not_end_is_cut_off_at_the_limit(storage: Storage, size: int) -> None:
    with pytest.raises(ObjectTooLarge):
        await storage.put_stream(KEY, chunked(LARGE[:size]), "video/mp4", most_bytes=size - 1)
    assert await storage.facts(KEY) is None


@pytest.mark.parametrize("size", [100, len(LARGE)])
async def test_a_cancelled_upload_leaves_nothing(storage: Storage, size: int) -> None:
    waiting = asyncio.Event()

    async def stalls() -> AsyncIterator[bytes]:
        async for chunk in chunked(LARGE[:size]):
            yield chunk
        waiting.set()
        await asyncio.Event().wait()

    upload = asyncio.create_task(storage.put_stream(KEY, stalls(), "video/mp4", most_bytes=len(LARGE)))
    await waiting.wait()
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upload
    assert await storage.facts(KEY) is None


async def test_a_failed_upload_leaves_an_older_object_as_it_was(storage: Storage) -> None:
    await storage.put(KEY, b"older", "image/png")
    with pytest.raises(SourceBroke):
        await storage.put_stream(KEY, chunked(LARGE, error=SourceBroke()), "image/png", most_bytes=len(LARGE))
    assert await storage.get(KEY, 100) == b"older"


@pytest.mark.parametrize(
    ("start", "end"), [(0, None), (0, 10), (3, 4), (5_000_000, 5_500_000), (12, None), (100, 10**12), (7, 7)]
)
async def test_a_part_of_an_object_can_be_read(storage: Storage, start: int, end: int | None) -> None:
    body = LARGE[:6_000_000]
    await storage.put_stream(KEY, chunked(body), "video/mp4", most_bytes=len(body))
    assert b"".join([chunk async for chunk in storage.read(KEY, start, end)]) == body[start:end]


async def test_what_is_larger_than_wanted_is_not_read_into_memory(storage: Storage) -> None:
    await storage.put(KEY, LARGE[:1000], "image/png")
    with pytest.raises(ObjectTooLarge):
        await storage.get(KEY, 999)


async def test_facts_tell_size_and_type(storage: Storage) -> None:
    await storage.put(KEY, b"the bytes", "image/png")
    facts = await storage.facts(KEY)
    assert facts is not None
    assert (facts.key, facts.size, facts.content_type) == (KEY, 9, "image/png")
    assert facts.etag


async def test_an_object_that_is_not_there_is_missing(storage: Storage) -> None:
    assert await storage.facts(KEY) is None
    with pytest.raises(ObjectMissing):
        await storage.get(KEY, 100)
    with pytest.raises(ObjectMissing):
        await anext(storage.read(KEY, 1, 2))


async def test_deleted_objects_are_gone_and_deleting_them_again_is_fine(storage: Storage) -> None:
    keys = [f"results/{number}/a.png" for number in range(3)]
    for key in keys:
        await storage.put(key, b"x", "image/png")
    await storage.delete(keys[:2])
    await storage.delete([*keys[:2], "results/never/a.png"])
    assert await keys_in(storage, "results") == [keys[2]]
    await storage.put(keys[0], b"again", "image/png")
    assert await storage.get(keys[0], 10) == b"again"


async def test_a_folder_is_listed_with_all_below_it_and_nothing_else(storage: Storage) -> None:
    assert await keys_in(storage, "results") == []
    inside = [f"results/{number:03}/a.png" for number in range(20)]
    for key in [*inside, "references/b.png", "resultsx/c.png"]:
        await storage.put(key, b"x", "image/png")
    assert await keys_in(storage, "results/") == inside
    assert await keys_in(storage, "references") == ["references/b.png"]
    assert [one.size async for one in storage.list("results/000")] == [1]


@pytest.mark.parametrize(
    "key",
    [
        "", "/absolute.png", "../up.png", "results/../up.png", "results/..", "a//b.png", "a/", "./a.png", "a/.hidden",
        "a\0b.png", "%2e%2e/up.png", "a/%2e%2e/b", "a\\b.png", "a b.png", "ä.png", "a\n.png", "C:/x.png", "a" * 501,
        ".incoming/x", "a?b=c", "a#b",
    ],
)  # fmt: skip
async def test_keys_that_we_did_not_make_are_refused_everywhere(storage: Storage, key: str) -> None:
    """A17: object keys that we did not make."""
    with pytest.raises(ObjectKeyInvalid):
        await storage.put(key, b"x", "image/png")
    with pytest.raises(ObjectKeyInvalid):
        await storage.put_stream(key, chunked(b"x"), "image/png", most_bytes=10)
    with pytest.raises(ObjectKeyInvalid):
        await storage.facts(key)
    with pytest.raises(ObjectKeyInvalid):
        await anext(storage.read(key))
    with pytest.raises(ObjectKeyInvalid):
        await storage.delete(["fine.png", key])
    with pytest.raises(ObjectKeyInvalid):
        await storage.signed_url(key, 300)


async def test_a_store_that_works_passes_its_check_and_keeps_nothing_of_it(storage: Storage) -> None:
    await storage.check()
    assert await keys_in(storage, "probes") == []
    await storage.close()


async def test_of_several_keys_those_with_an_object_are_told_in_their_order(storage: Storage) -> None:
    keys = [f"posters/one.{ending}" for ending in ("webp", "png", "jpg", "gif")]
    assert await storage.existing(keys) == []
    for key in ("posters/one.jpg", "posters/one.webp"):
        await storage.put(key, b"the bytes", "image/jpeg")
    assert await storage.existing(keys) == ["posters/one.webp", "posters/one.jpg"]
    assert await storage.existing([]) == []
    with pytest.raises(ObjectKeyInvalid):
        await storage.existing([keys[0], "../outside"])
