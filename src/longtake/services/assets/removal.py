"""Assets that go, and their objects with them: rows first, in the caller's transaction, with a job for the objects.

So there is no moment after which a row names an object that was removed, or an object is left that nothing will remove.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, select

from longtake.adapters.storage.keys import picture_of, preview_key, thumbnail_key
from longtake.engine.control import cancel
from longtake.engine.events import append_events
from longtake.engine.jobs import JobRequest
from longtake.engine.tables import jobs
from longtake.services.alerts import resolve_alert
from longtake.services.assets.assets import Asset, asset_from, assets
from longtake.services.assets.register import MIRROR, NOT_SAVED, PREVIEW, THUMBNAIL, stored_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake.db import Transaction
    from longtake.engine.engine import Engine

#: The kind of job that removes objects. Declared by the assets capability.
DELETE = "assets.delete"
#: What is done for an asset; its subject is the asset.
OF_AN_ASSET = (MIRROR, THUMBNAIL, PREVIEW)
#: So many keys are well below what the arguments of one job may hold.
ASSETS_OF_A_JOB = 100


def remove_assets(tx: Transaction, engine: Engine, asset_ids: Sequence[str]) -> list[Asset]:
    """Remove the rows, end what is done for them and have their objects removed; return the assets that were there.

    Their jobs first, then their rows, as workers do it: nobody deadlocks.
    """
    removed: list[Asset] = []
    wanted = sorted(asset_ids)
    for first in range(0, len(wanted), ASSETS_OF_A_JOB):
        page = wanted[first : first + ASSETS_OF_A_JOB]
        _cancel_jobs(tx, page)
        rows = tx.execute(delete(assets).where(assets.c.id.in_(page)).returning(*assets.columns)).all()
        if rows:
            found = [asset_from(row) for row in rows]
            engine.enqueue_many(tx, [_deletion(found)])
            removed += found
    for asset in removed:
        # Nobody misses its copy any more.
        if asset.mirror_error is not None:
            resolve_alert(tx, NOT_SAVED, asset.id)
    append_events(tx, [("asset.deleted", asset.id, asset.user_id, stored_data(asset)) for asset in removed])
    return removed


def remove_assets_of_tasks(tx: Transaction, engine: Engine, task_ids: Sequence[str]) -> list[Asset]:
    """Remove the results of tasks as ``remove_assets`` does."""
    results = (assets.c.task_id.in_(task_ids), assets.c.role == "result")
    return remove_assets(tx, engine, list(tx.execute(select(assets.c.id).where(*results)).scalars()))


def unnamed(tx: Transaction, keys: Sequence[str]) -> list[str]:
    """Return those of the keys that no row stands for.

    A file is named by its key, whoever wrote the row. A thumbnail or preview has a name that follows from its asset's
    id and file: it may be about to be named as long as these are there.
    """
    if not keys:
        return []
    named = set(tx.execute(select(assets.c.key).where(assets.c.key.in_(keys))).scalars())
    pictures = {key: picture for key in keys if (picture := picture_of(key)) is not None}
    owners = select(assets.c.id, assets.c.file_number).where(assets.c.id.in_({one for one, _ in pictures.values()}))
    there = {(row.id, row.file_number) for row in tx.execute(owners)}
    return [key for key in keys if key not in named and pictures.get(key) not in there]


def _cancel_jobs(tx: Transaction, asset_ids: Sequence[str]) -> None:
    about = (jobs.c.subject.in_(asset_ids), jobs.c.kind.in_(OF_AN_ASSET))
    for job_id in sorted(tx.execute(select(jobs.c.id).where(*about)).scalars()):
        cancel(tx, job_id, "its asset was deleted")


def _deletion(removed: Sequence[Asset]) -> JobRequest:
    keys = {key for asset in removed for key in _keys(asset)}
    arguments: dict[str, Any] = {"assets": [asset.id for asset in removed], "keys": sorted(keys)}
    return JobRequest(DELETE, arguments)


def _keys(asset: Asset) -> list[str]:
    """Return all that the asset may have, also what a run wrote that came too late to name it."""
    known = [asset.key, asset.thumbnail_key, asset.preview_key]
    made = [thumbnail_key(asset.id, asset.file_number), preview_key(asset.id, asset.file_number)]
    return [*made, *(key for key in known if key is not None)]
