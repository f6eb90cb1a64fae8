"""Registers, finds and deletes assets, in the caller's transaction.

The database's triggers start the copy and the thumbnail of a new row. Deletion removes the rows first and enqueues
a job for the objects in the same transaction: no row ever names a deleted object, and no object is left behind.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Double, bindparam, delete, insert, literal_column, select, update
from sqlalchemy.sql.elements import ColumnElement

from longtake.adapters.storage.keys import picture_of, preview_key, thumbnail_key
from longtake.db import Transaction
from longtake.db.dialects import NOW, later
from longtake.engine.control import cancel_of_subjects, hurry
from longtake.engine.engine import Engine
from longtake.engine.events import append_events
from longtake.engine.jobs import JobRequest, Priority
from longtake.services.alerts import resolve_alert
from longtake.services.assets.tables import Asset, NewAsset, asset_from, assets

#: Job kinds, declared by the media capability: copy the file to our storage, make its thumbnail, make its preview.
MIRROR = "assets.mirror"
THUMBNAIL = "assets.thumbnail"
PREVIEW = "assets.preview"
#: The code of the alert for a result that could not be copied.
NOT_SAVED = "RESULT_NOT_SAVED"
#: Values the database computes with its own clock, so that many rows are one statement.
_BOTH = {
    "mirror_attempts": 0,
    "created_at": NOW,
    "completed_at": NOW,
    "status": "completed",
    "source_expires_at": later(bindparam("expires_in", type_=Double)),
}
_STORED = _BOTH | {"mirror_state": "completed", "mirrored_at": NOW}
_ELSEWHERE = _BOTH | {"mirror_state": "none"}


def register_asset(tx: Transaction, new: NewAsset, request_id: str | None = None) -> str:
    """Write the row of one asset; return its id. See ``register_assets``."""
    return register_assets(tx, [new], request_id)[0]


def register_assets(tx: Transaction, news: Sequence[NewAsset], request_id: str | None = None) -> list[str]:
    """Write the rows; return their ids.

    An asset whose object is stored already is complete. The file of any other is copied at top priority, because its
    source may be gone in minutes. The database's triggers write the jobs.
    """
    if not news:
        return []
    stored = [new for new in news if new.key is not None]
    elsewhere = [new for new in news if new.key is None]
    if stored:
        tx.execute(insert(assets).values(**_STORED), [_row(new, request_id) for new in stored])
        append_events(tx, [("asset.stored", new.id, new.user_id, stored_data(new)) for new in stored])
    if elsewhere:
        tx.execute(insert(assets).values(**_ELSEWHERE), [_row(new, request_id) for new in elsewhere])
    tx.signal("jobs")
    return [new.id for new in news]


def retry_mirror(tx: Transaction, engine: Engine, asset_ids: Sequence[str], request_id: str | None = None) -> list[str]:
    """Copy those of the assets now that have no copy yet; return their ids.

    A job that waits for its next attempt runs now; an asset whose copy had failed for good gets a new job.
    """
    missing = (assets.c.id.in_(asset_ids), assets.c.key.is_(None))
    found = list(tx.execute(select(assets.c.id).where(*missing).order_by(assets.c.id).with_for_update()).scalars())
    given_up = (assets.c.id.in_(found), assets.c.mirror_state.in_(("failed", "expired")))
    tx.execute(update(assets).where(*given_up).values(mirror_state="pending"))
    again = [
        JobRequest(MIRROR, {"asset": one}, key=one, priority=Priority.TOP, subject=one, request_id=request_id)
        for one in found
    ]
    engine.enqueue_many(tx, again)
    hurry(tx, MIRROR, found)
    return found


def assets_of_tasks(tx: Transaction, task_ids: Sequence[str], user_id: str | None = None) -> dict[str, list[Asset]]:
    """Return the results of each task in their order. Tasks without results are left out."""
    # Spelled like the condition of the partial index, and so that a user's many other assets are not scanned.
    conditions: list[ColumnElement[bool]] = [assets.c.task_id.in_(task_ids), literal_column("assets.role = 'result'")]
    if user_id is not None:
        conditions.append(assets.c.user_id.concat("") == user_id)
    found: dict[str, list[Asset]] = defaultdict(list)
    for row in tx.execute(select(assets).where(*conditions).order_by(assets.c.task_id, assets.c.position)):
        found[row.task_id].append(asset_from(row))
    return dict(found)


def find_assets(tx: Transaction, asset_ids: Sequence[str], user_id: str | None = None) -> dict[str, Asset]:
    """Return assets by id; with a user, only that user's."""
    conditions: list[ColumnElement[bool]] = [assets.c.id.in_(asset_ids)]
    if user_id is not None:
        conditions.append(assets.c.user_id == user_id)
    return {row.id: asset_from(row) for row in tx.execute(select(assets).where(*conditions))}


def stored_data(asset: Asset | NewAsset) -> dict[str, Any]:
    """Return the data of an event about an asset."""
    return {"task_id": asset.task_id, "role": asset.role, "kind": asset.kind, "position": asset.position}


def _row(new: NewAsset, request_id: str | None) -> dict[str, Any]:
    values = asdict(new)
    expires_in = values.pop("source_expires_in")
    return values | {"expires_in": expires_in if new.source_url is not None else None, "request_id": request_id}


#: The job kind that deletes objects, declared by the media capability.
DELETE = "assets.delete"
#: The kinds of jobs whose subject is an asset.
OF_AN_ASSET = (MIRROR, THUMBNAIL, PREVIEW)
#: The keys of this many assets fit easily into the arguments of one job.
ASSETS_OF_A_JOB = 100
#: Assets of a deleted account that one transaction removes.
REMOVED_AT_ONCE = 200


def remove_assets(tx: Transaction, engine: Engine, asset_ids: Sequence[str]) -> list[Asset]:
    """Delete assets, cancel their jobs and enqueue the deletion of their objects; return the assets that existed.

    Jobs are locked before rows, as workers do it, so that nothing deadlocks.
    """
    removed: list[Asset] = []
    ids = sorted(asset_ids)
    cancel_of_subjects(tx, ids, OF_AN_ASSET, "its asset was deleted")
    for first in range(0, len(ids), ASSETS_OF_A_JOB):
        page = ids[first : first + ASSETS_OF_A_JOB]
        locked = select(assets.c.id).where(assets.c.id.in_(page)).order_by(assets.c.id).with_for_update()
        found = list(tx.execute(locked).scalars())
        rows = tx.execute(delete(assets).where(assets.c.id.in_(found)).returning(*assets.columns)).all()
        if rows:
            gone = [asset_from(row) for row in rows]
            keys = sorted({key for asset in gone for key in _object_keys(asset)})
            engine.enqueue(tx, DELETE, {"assets": [asset.id for asset in gone], "keys": keys})
            removed += gone
    for asset in removed:
        # Its missing copy no longer matters.
        if asset.mirror_error is not None:
            resolve_alert(tx, NOT_SAVED, asset.id)
    append_events(tx, [("asset.deleted", asset.id, asset.user_id, stored_data(asset)) for asset in removed])
    return removed


def remove_assets_of_tasks(tx: Transaction, engine: Engine, task_ids: Sequence[str]) -> list[Asset]:
    """Delete the results of tasks as ``remove_assets`` does."""
    results = (assets.c.task_id.in_(task_ids), assets.c.role == "result")
    return remove_assets(tx, engine, list(tx.execute(select(assets.c.id).where(*results)).scalars()))


def remove_assets_of(tx: Transaction, engine: Engine, user_id: str, before: datetime) -> bool:
    """Remove a page of the assets that a user had at that time; say whether there may be more.

    Results of newer tasks stay with their tasks.
    """
    mine = (assets.c.user_id == user_id, assets.c.created_at <= before)
    found = list(tx.execute(select(assets.c.id).where(*mine).order_by(assets.c.id).limit(REMOVED_AT_ONCE)).scalars())
    remove_assets(tx, engine, found)
    return len(found) == REMOVED_AT_ONCE


def unreferenced_keys(tx: Transaction, keys: Sequence[str]) -> list[str]:
    """Return the keys that no row references.

    A file is referenced by its key. The key of a thumbnail or preview follows from its asset's id and file number,
    and a job may be about to write it into the row while these exist.
    """
    if not keys:
        return []
    referenced = set(tx.execute(select(assets.c.key).where(assets.c.key.in_(keys))).scalars())
    pictures = {key: picture for key in keys if (picture := picture_of(key)) is not None}
    owners = select(assets.c.id, assets.c.file_number).where(assets.c.id.in_({one for one, _ in pictures.values()}))
    there = {(row.id, row.file_number) for row in tx.execute(owners)}
    return [key for key in keys if key not in referenced and pictures.get(key) not in there]


def _object_keys(asset: Asset) -> list[str]:
    """Return all keys the asset may have, also of objects that a late job stored without naming them."""
    known = [asset.key, asset.thumbnail_key, asset.preview_key]
    made = [thumbnail_key(asset.id, asset.file_number), preview_key(asset.id, asset.file_number)]
    return [*made, *(key for key in known if key is not None)]
