"""Registering assets, in the transaction that makes them known. The row itself starts copy and thumbnail (triggers)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sqlalchemy import Double, bindparam, insert, literal_column, select, update

from longtake.db.dialects import NOW, later
from longtake.engine.control import hurry
from longtake.engine.events import append_events
from longtake.engine.jobs import JobRequest, Priority
from longtake.services.assets.assets import Asset, NewAsset, asset_from, assets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.sql.elements import ColumnElement

    from longtake.db import Transaction
    from longtake.engine.engine import Engine

#: Kinds of jobs, declared by the assets capability: a copy of the file in our storage, its still picture, a moving one.
MIRROR = "assets.mirror"
THUMBNAIL = "assets.thumbnail"
PREVIEW = "assets.preview"
#: The alert for a result that could not be copied.
NOT_SAVED = "RESULT_NOT_SAVED"
#: What the database fills in, so that many rows are one statement: its clock decides, not ours.
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

    One whose object is stored already is complete. Of any other the file is copied at top priority: its source
    may be gone in minutes. The database's triggers write the jobs.
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
    """Try at once to copy those of the assets that have no copy yet; return their ids.

    One whose job waits for its next try is tried now; one that was given up gets a new job.
    """
    missing = (assets.c.id.in_(asset_ids), assets.c.key.is_(None))
    found = list(tx.execute(select(assets.c.id).where(*missing).order_by(assets.c.id).with_for_update()).scalars())
    given_up = (assets.c.id.in_(found), assets.c.mirror_state.in_(("failed", "expired")))
    tx.execute(update(assets).where(*given_up).values(mirror_state="pending"))
    engine.enqueue_many(tx, [_mirror(asset_id, request_id) for asset_id in found])
    hurry(tx, MIRROR, found)
    return found


def assets_of_tasks(tx: Transaction, task_ids: Sequence[str], user_id: str | None = None) -> dict[str, list[Asset]]:
    """Return the results of tasks in their order; a task without any is not among them."""
    # As the partial index has it; and spelled so that a user's other assets, who may have many, are not walked through.
    wanted: list[ColumnElement[bool]] = [assets.c.task_id.in_(task_ids), literal_column("assets.role = 'result'")]
    if user_id is not None:
        wanted.append(assets.c.user_id.concat("") == user_id)
    found: dict[str, list[Asset]] = defaultdict(list)
    for row in tx.execute(select(assets).where(*wanted).order_by(assets.c.task_id, assets.c.position)):
        found[row.task_id].append(asset_from(row))
    return dict(found)


def find_assets(tx: Transaction, asset_ids: Sequence[str], user_id: str | None = None) -> dict[str, Asset]:
    """Return assets by id; those of somebody else are not there."""
    wanted: list[ColumnElement[bool]] = [assets.c.id.in_(asset_ids)]
    if user_id is not None:
        wanted.append(assets.c.user_id == user_id)
    return {row.id: asset_from(row) for row in tx.execute(select(assets).where(*wanted))}


def stored_data(asset: Asset | NewAsset) -> dict[str, Any]:
    """Return what an event says about an asset."""
    return {"task_id": asset.task_id, "role": asset.role, "kind": asset.kind, "position": asset.position}


def _row(new: NewAsset, request_id: str | None) -> dict[str, Any]:
    values = asdict(new)
    expires_in = values.pop("source_expires_in")
    return values | {"expires_in": expires_in if new.source_url is not None else None, "request_id": request_id}


def _mirror(asset_id: str, request_id: str | None) -> JobRequest:
    return JobRequest(
        MIRROR, {"asset": asset_id}, key=asset_id, priority=Priority.TOP, subject=asset_id, request_id=request_id
    )
