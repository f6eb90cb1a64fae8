"""Objects go with their rows: rows first, objects after (X6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select, text, update

from longtake import Done, Engine, Retry
from longtake.adapters.storage.keys import preview_key, reference_key, thumbnail_key
from longtake.adapters.storage.s3 import S3Storage, parse_s3_url
from longtake.capabilities.media.mirror import MIRROR_LANE
from longtake.capabilities.media.removal import ObjectRemoval, delete_asset
from longtake.capability import AssetOwner
from longtake.clock import new_id
from longtake.engine.tables import events, jobs
from longtake.errors import NotFound, StateConflict
from longtake.services.alerts import Severity, list_alerts, raise_alert
from longtake.services.assets import MIRROR, NewAsset, assets, find_assets, register_asset
from longtake.services.assets.files import keep_bytes
from longtake.services.assets.store import remove_assets
from tests.assets.stage import PNG, USER, Stage
from tests.engine.stage import claim, claim_lane, finish, hire
from tests.storages import keys_in, local_storage

if TYPE_CHECKING:
    from pathlib import Path

    from longtake import Database, Job, Outcome, Transaction
    from longtake.adapters.storage import Storage


class Removal:
    """Keeps assets, removes them, and runs what removes their objects."""

    def __init__(self, database: Database, storage: Storage) -> None:
        self.database = database
        self.storage = storage
        self.kind = ObjectRemoval(database, storage).kind()
        self.engine = Engine(database, [self.kind])

    async def keep(self, user: str = USER, role: Any = "import", **options: Any) -> str:
        """Keep an asset with everything that one can have."""
        new = await keep_bytes(self.storage, NewAsset(user_id=user, kind="image", role=role, **options), PNG, "token")
        asset_id = await self.database.run(register_asset, new)
        await self.storage.put(thumbnail_key(asset_id), b"thumbnail", "image/jpeg")
        await self.storage.put(preview_key(asset_id), b"preview", "image/webp")
        # A run that lost its lease wrote this one; the row names the other.
        await self.storage.put(f"results/{asset_id}/lost.png", PNG, "image/png")
        return asset_id

    async def remove(self, *asset_ids: str) -> None:
        await self.database.run(remove_assets, self.engine, asset_ids)

    async def objects(self) -> list[str]:
        return [key for folder in ("results", "thumbnails", "previews") for key in await keys_in(self.storage, folder)]

    async def jobs(self) -> list[Job]:
        worker = await self.database.run(hire)
        return await self.database.run(claim, self.engine, worker)

    async def finish(self, job: Job, outcome: Outcome) -> bool:
        return await self.database.run(finish, self.engine, job, outcome)

    async def rows(self) -> list[str]:
        def read(tx: Transaction) -> list[str]:
            return list(tx.execute(select(assets.c.id)).scalars())

        return await self.database.read(read)


@pytest.fixture
async def removal(database: Database, storage: Storage) -> Removal:
    opened = Removal(database, storage)
    await opened.engine.start()
    return opened


@pytest.fixture
async def local_removal(database: Database, tmp_path: Path) -> Removal:
    opened = Removal(database, local_storage(tmp_path))
    await opened.engine.start()
    return opened


async def test_deleting_an_asset_deletes_its_row_then_its_own_objects_only(removal: Removal) -> None:
    """X6: deletion."""
    gone, kept = await removal.keep(), await removal.keep()
    before = await removal.objects()
    await removal.remove(gone)
    assert await removal.rows() == [kept]
    assert await removal.objects() == before
    [job] = await removal.jobs()
    outcome = await removal.kind.handler(job)
    assert isinstance(outcome, Done)
    assert await removal.finish(job, outcome)
    left = await removal.objects()
    assert len(left) == 4
    assert all(kept in key for key in left)
    told = await removal.database.read(lambda tx: tx.execute(select(events).where(events.c.subject == gone)).all())
    assert [(row.type, row.user_id) for row in told][-1:] == [("asset.deleted", USER)]


async def test_a_worker_that_dies_after_the_objects_leaves_a_job_that_finds_nothing_more(removal: Removal) -> None:
    await removal.remove(await removal.keep())
    [job] = await removal.jobs()
    await removal.kind.handler(job)
    # It dies here: what it returned is not written, and another worker runs the job again.
    assert isinstance(outcome := await removal.kind.handler(job), Done)
    assert await removal.finish(job, outcome)
    assert await removal.objects() == []


async def test_a_deletion_that_is_not_committed_leaves_rows_and_objects(local_removal: Removal) -> None:
    removal = local_removal
    asset_id = await removal.keep()

    def remove_and_fail(tx: Transaction) -> None:
        remove_assets(tx, removal.engine, [asset_id])
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await removal.database.run(remove_and_fail)
    assert await removal.rows() == [asset_id]
    assert await removal.jobs() == []
    assert len(await removal.objects()) == 4


async def test_deletion_is_repeated_until_a_failing_store_has_deleted_the_objects(local_removal: Removal) -> None:
    """F31: the storage fails or is slow."""
    removal = local_removal
    await removal.remove(await removal.keep())
    [job] = await removal.jobs()
    address = parse_s3_url("s3://bucket?endpoint=http://127.0.0.1:9")
    down = ObjectRemoval(removal.database, S3Storage(address, access_key_id="x", secret_access_key="y"))
    outcome = await down.run(job)
    assert isinstance(outcome, Retry)
    assert outcome.code == "STORAGE_UNAVAILABLE"
    assert await removal.finish(job, outcome)
    assert removal.kind.max_attempts > 1_000
    await removal.database.run(lambda tx: tx.execute(update(jobs).values(due_at=text("created_at"))).rowcount)
    [again] = await removal.jobs()
    assert isinstance(await removal.kind.handler(again), Done)
    assert await removal.objects() == []


async def test_a_file_that_a_second_row_names_stays(local_removal: Removal) -> None:
    removal = local_removal
    first = await removal.keep()
    key = (await removal.database.read(find_assets, [first]))[first].key
    await removal.database.run(register_asset, NewAsset(user_id=USER, kind="image", role="import", key=key))
    await removal.remove(first)
    [job] = await removal.jobs()
    await removal.kind.handler(job)
    assert await removal.objects() == [key]


async def test_what_is_no_key_does_not_hold_up_the_others(local_removal: Removal) -> None:
    removal = local_removal
    odd, usual = await removal.keep(), await removal.keep()

    def spoil(tx: Transaction) -> None:
        tx.execute(update(assets).where(assets.c.id == odd).values(key="../../etc/passwd"))

    await removal.database.run(spoil)
    await removal.remove(odd, usual)
    [job] = await removal.jobs()
    assert isinstance(await removal.kind.handler(job), Done)
    assert await removal.objects() == []


async def test_many_assets_are_several_jobs_and_none_is_left_out(local_removal: Removal) -> None:
    removal = local_removal

    def register(tx: Transaction) -> list[str]:
        names = [new_id() for _ in range(250)]
        return [
            register_asset(
                tx, NewAsset(id=one, user_id=USER, kind="image", role="reference", key=reference_key(one, "png"))
            )
            for one in names
        ]

    found = await removal.database.run(register)
    await removal.remove(*found)
    named = [one for job in await removal.jobs() for one in job.args["assets"]]
    assert sorted(named) == sorted(found)
    assert await removal.rows() == []


async def test_a_copy_under_way_is_ended_and_what_it_wrote_goes_as_well(
    database: Database, folder_storage: Storage
) -> None:
    stage = Stage(database, folder_storage)
    stage.engine = Engine(database, [stage.kind, ObjectRemoval(database, folder_storage).kind()], [MIRROR_LANE])
    async with stage.open():
        stage.source.files["/result.png"] = PNG
        asset_id = await stage.register()
        worker = await database.run(hire)
        [copy] = await database.run(claim_lane, stage.engine, MIRROR_LANE.name, worker)
        outcome = await stage.kind.handler(copy)
        await database.run(remove_assets, stage.engine, [asset_id])
        assert not await stage.settle(copy, outcome)
        assert len(await keys_in(folder_storage, "results")) == 1
        [job] = await database.run(claim, stage.engine, worker)
        await stage.engine.kinds[job.kind].handler(job)
        assert await keys_in(folder_storage, "results") == []
        live = await database.read(lambda tx: list(tx.execute(select(jobs.c.kind)).scalars()))
        assert MIRROR not in live


async def test_nobody_is_told_any_more_of_a_copy_that_is_not_wanted(local_removal: Removal) -> None:
    removal = local_removal
    asset_id = await removal.keep()

    def fail(tx: Transaction) -> None:
        tx.execute(update(assets).where(assets.c.id == asset_id).values(mirror_error="X: y"))
        raise_alert(tx, Severity.CRITICAL, "RESULT_NOT_SAVED", "It could not be copied.", subject=asset_id)

    await removal.database.run(fail)
    await removal.remove(asset_id)
    assert await removal.database.read(list_alerts) == []


async def test_users_delete_what_they_brought_and_nothing_else(local_removal: Removal) -> None:
    removal = local_removal
    mine, others = await removal.keep(), await removal.keep("bob")
    result = await removal.keep(role="result", task_id=new_id())
    reference = await removal.keep(role="reference")

    class Refusing(AssetOwner):
        def require_unused(self, _tx: Transaction, _user: str, asset_id: str) -> None:
            raise StateConflict(f"{asset_id} is used.")

    async def delete(asset_id: str) -> None:
        await removal.database.run(delete_asset, removal.engine, USER, asset_id, Refusing())

    await delete(mine)
    for missing in (mine, others, new_id()):
        with pytest.raises(NotFound, match=f"There is no asset '{missing}'"):
            await delete(missing)
    with pytest.raises(StateConflict, match="it goes with its task"):
        await delete(result)
    with pytest.raises(StateConflict, match="is used"):
        await delete(reference)
    assert sorted(await removal.rows()) == sorted([others, result, reference])
