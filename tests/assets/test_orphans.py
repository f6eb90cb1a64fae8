"""Objects that no row names go after a day, and nothing else ever does (F4, F33)."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from longtake import Done, Engine, Snooze
from longtake.adapters.storage.files import INCOMING
from longtake.adapters.storage.keys import preview_key, reference_key, thumbnail_key
from longtake.adapters.storage.local import LocalStorage
from longtake.adapters.storage.storage import PART_BYTES
from longtake.capabilities.media import removal
from longtake.capabilities.media.removal import Orphans, SweepProgress
from longtake.clock import new_id
from longtake.engine.tables import events
from longtake.services.assets import NewAsset, register_asset
from longtake.services.assets.files import keep_bytes
from tests.assets.stage import PNG, USER
from tests.engine.stage import claim, finish, hire
from tests.storages import KINDS, chunked, keys_in, local_storage, s3_storage
from tests.wait import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from longtake import Database, Transaction
    from longtake.adapters.storage import ObjectFacts, Storage
    from tests.s3_server import S3Server

DAY = timedelta(hours=24)
LARGE = b"x" * (2 * PART_BYTES + 1)


class Ahead:
    """A clock so far ahead of the store's."""

    def __init__(self, ahead: timedelta) -> None:
        self._ahead = ahead

    def now(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def monotonic(self) -> float:
        return 0.0


async def sweep(database: Database, storage: Storage, ahead: timedelta = DAY + timedelta(minutes=1)) -> SweepProgress:
    """Run a whole sweep as workers do, run after run; return what it came to."""
    kind = Orphans(database, storage, Ahead(ahead)).kind()
    engine = Engine(database, [kind])
    await engine.start()
    worker = await database.run(hire)
    await database.run(engine.enqueue, kind.name)
    while True:
        [job] = await database.run(claim, engine, worker)
        outcome = await kind.handler(job)
        assert await database.run(finish, engine, job, outcome)
        if isinstance(outcome, Done):
            found: SweepProgress = outcome.data
            return found
        assert isinstance(outcome, Snooze), outcome


async def all_keys(storage: Storage) -> list[str]:
    folders = ("results", "references", "thumbnails", "previews")
    return [key for folder in folders for key in await keys_in(storage, folder)]


async def keep(database: Database, storage: Storage, **options: Any) -> tuple[str, list[str]]:
    """Keep an asset with its pictures; return its id and the keys of all that is its own."""
    new = await keep_bytes(storage, NewAsset(user_id=USER, kind="image", **options), PNG, "token")
    await storage.put(thumbnail_key(new.id), b"thumbnail", "image/jpeg")
    await storage.put(preview_key(new.id), b"preview", "image/webp")
    await database.run(register_asset, new)
    return new.id, [str(new.key), thumbnail_key(new.id), preview_key(new.id)]


async def leave(storage: Storage) -> list[str]:
    """Leave one object in each folder, as workers do that die before they write a row."""
    lost = new_id()
    keys = [f"results/{lost}/token.png", reference_key(lost, "png"), thumbnail_key(lost), preview_key(lost)]
    for key in keys:
        await storage.put(key, b"lost", "image/png")
    return keys


async def test_objects_that_no_row_names_are_deleted_after_a_day(database: Database, storage: Storage) -> None:
    """F4: killed after the upload, before the row."""
    asset_id, named = await keep(database, storage)
    beside = f"results/{asset_id}/of-a-lost-lease.png"
    await storage.put(beside, PNG, "image/png")
    lost = await leave(storage)
    assert await sweep(database, storage, DAY - timedelta(minutes=1)) == SweepProgress(4, None, looked_at=8)
    assert sorted(await all_keys(storage)) == sorted([*named, beside, *lost])
    found = await sweep(database, storage)
    assert (found.looked_at, found.removed) == (8, 5)
    assert sorted(await all_keys(storage)) == sorted(named)
    told = await database.read(
        lambda tx: list(tx.execute(select(events.c.data).where(events.c.type == "assets.swept")).scalars())
    )
    assert told[-1] == {"looked_at": 8, "removed": 5, "uploads": 0}


async def test_a_sweep_goes_on_where_it_stopped(
    database: Database, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "PAGE", 2)
    monkeypatch.setattr(removal, "RUN_SECONDS", 0.0001)
    named = [key for _ in range(3) for key in (await keep(database, storage))[1]]
    for _ in range(3):
        await leave(storage)
    found = await sweep(database, storage)
    assert (found.looked_at, found.removed) == (9 + 12, 12)
    assert sorted(await all_keys(storage)) == sorted(named)


async def test_what_is_named_or_written_anew_at_the_second_look_stays(database: Database, tmp_path: Path) -> None:
    class Late(LocalStorage):
        """Where somebody writes a row, or the object again, after the first look."""

        async def facts(self, key: str) -> ObjectFacts | None:
            if key == named:
                new = NewAsset(user_id=USER, kind="image", role="import", key=key)
                await database.run(register_asset, new)
            elif key == rewritten:
                os.utime(tmp_path / key, (later, later))
            return await super().facts(key)

    storage = Late(tmp_path)
    later = datetime.now(UTC).timestamp() + 86_400
    named, rewritten, lost = (f"results/{new_id()}/token.png" for _ in range(3))
    for key in (named, rewritten, lost):
        await storage.put(key, PNG, "image/png")
    assert (await sweep(database, storage)).removed == 1
    assert sorted(await all_keys(storage)) == sorted([named, rewritten])


@pytest.mark.parametrize("kind", KINDS)
async def test_a_list_is_in_order_and_goes_on_after_any_key(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    storage = local_storage(tmp_path) if kind == "local" else s3_storage(request.getfixturevalue("s3_server"))
    ids = [new_id() for _ in range(3)]
    keys = sorted([f"results/{one}/{token}.png" for one in ids for token in ("a", "b")])
    if kind == "local":
        # SeaweedFS has folders first; among keys of our own making that is the same order.
        keys = sorted([*keys, "results/a-b/x.png", "results/a/x.png", "results/a.png", "results/a/y/z.png"])
    for key in keys:
        await storage.put(key, b"x", "image/png")
    await storage.put("references/c.png", b"x", "image/png")
    assert [one.key async for one in storage.list("results")] == keys
    for place, key in enumerate(keys):
        assert [one.key async for one in storage.list("results", key)] == keys[place + 1 :]
    assert [one.key async for one in storage.list("nothing", "nothing/a")] == []


async def test_files_of_unfinished_uploads_are_deleted_after_a_day(tmp_path: Path) -> None:
    """F33: abandoned uploads."""
    storage = local_storage(tmp_path)
    assert await storage.remove_unfinished(datetime.now(UTC)) == 0
    await storage.put("results/a/x.png", b"x", "image/png")
    folder = tmp_path / "objects" / INCOMING
    for name in ("old", "young"):
        (folder / name).write_bytes(b"half")
    yesterday = datetime.now(UTC) - DAY
    os.utime(folder / "old", (yesterday.timestamp() - 1,) * 2)
    assert await storage.remove_unfinished(yesterday) == 1
    assert [one.name for one in folder.iterdir()] == ["young"]


async def test_unfinished_multipart_uploads_are_aborted_after_a_day(
    sqlite_database: Database, s3_server: S3Server
) -> None:
    """F33: abandoned uploads."""
    ours, others = new_id(), new_id()
    uploads = [asyncio.create_task(begin(s3_server, folder)) for folder in (ours, others)]
    await until(lambda: s3_server.unfinished_uploads(ours) and s3_server.unfinished_uploads(others), "both uploads")
    storage = s3_storage(s3_server, ours)
    assert (await sweep(sqlite_database, storage, DAY - timedelta(minutes=1))).uploads == 0
    assert s3_server.unfinished_uploads(ours) == [f"{ours}/results/one/token.mp4"]
    assert (await sweep(sqlite_database, storage)).uploads == 1
    assert s3_server.unfinished_uploads(ours) == []
    assert s3_server.unfinished_uploads(others) != []
    for upload in uploads:
        upload.cancel()
    await asyncio.wait(uploads)


async def begin(server: S3Server, folder: str) -> None:
    """Begin an upload that never ends."""

    async def stalls() -> AsyncIterator[bytes]:
        async for chunk in chunked(LARGE):
            yield chunk
        await asyncio.Event().wait()

    storage = s3_storage(server, folder)
    await storage.put_stream("results/one/token.mp4", stalls(), "video/mp4", most_bytes=len(LARGE) + 1)


async def test_a_store_that_refuses_to_list_uploads_is_reported(s3_server: S3Server) -> None:
    """F33: abandoned uploads."""
    from longtake.adapters.storage.errors import StorageRefused, StorageUnavailable
    from longtake.adapters.storage.s3 import S3Storage, parse_s3_url

    refused = s3_storage(s3_server, secret="canary-secret-of-the-tests")
    with pytest.raises(StorageRefused) as caught:
        await refused.remove_unfinished(datetime.now(UTC))
    assert "canary" not in f"{caught.value!r} {caught.value.__cause__!r}"
    address = parse_s3_url("s3://bucket?endpoint=http://127.0.0.1:9")
    down = S3Storage(address, access_key_id="x", secret_access_key="y")
    with pytest.raises(StorageUnavailable):
        await down.remove_unfinished(datetime.now(UTC))


async def test_without_keys_of_ones_own_uploads_are_left_to_the_bucket(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from longtake.adapters.storage.s3 import S3Storage, parse_s3_url

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert await S3Storage(parse_s3_url(s3_server.url("x"))).remove_unfinished(datetime.now(UTC)) == 0


async def test_the_rows_of_a_page_are_found_by_index(database: Database) -> None:
    """Or every page of a sweep would read all assets."""
    from sqlalchemy import text

    def plan(tx: Transaction) -> str:
        explain = "EXPLAIN QUERY PLAN" if tx.dialect == "sqlite" else "EXPLAIN"
        if tx.dialect != "sqlite":
            tx.execute(text("SET LOCAL enable_seqscan = off"))
        query = f"{explain} SELECT key FROM assets WHERE key IN ('results/a/b.png', 'results/c/d.png')"
        return str([tuple(row) for row in tx.execute(text(query))])

    assert "assets_object" in await database.read(plan)
