"""Transaction functions: where the thumbnail and the preview of an asset stand, and what became of a try."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, LargeBinary, Table, Text, case, delete, func, insert, select, update

from longtake.db.dialects import NOW, Identifier
from longtake.engine.events import append_event
from longtake.engine.tables import metadata
from longtake.services.assets import Asset, asset_from, assets
from longtake.services.assets.store import stored_data

if TYPE_CHECKING:
    from longtake.capabilities.media.thumbnail_maker import Still
    from longtake.db import Transaction

#: Thumbnails that the storage has not taken yet. They go with their asset.
asset_pictures = Table(
    "asset_pictures",
    metadata,
    Column("asset_id", Identifier, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("picture", LargeBinary, nullable=False),
)

ERROR_LIMIT = 500


def read_asset(tx: Transaction, asset_id: str) -> Asset | None:
    """Return the asset, or None when it is gone."""
    row = tx.execute(select(assets).where(assets.c.id == asset_id)).first()
    return None if row is None else asset_from(row)


def waiting_picture(tx: Transaction, asset_id: str) -> bytes | None:
    """Return a thumbnail that the storage has not taken yet."""
    found = tx.execute(select(asset_pictures.c.picture).where(asset_pictures.c.asset_id == asset_id)).scalar()
    return None if found is None else bytes(found)


def keep_picture(tx: Transaction, asset: Asset, picture: bytes) -> None:
    """Keep a thumbnail until the storage takes it; not of an asset that was deleted meanwhile."""
    if read_asset(tx, asset.id) is not None:
        tx.execute(insert(asset_pictures).values(asset_id=asset.id, user_id=asset.user_id, picture=picture))


def note_processing(tx: Transaction, asset_id: str) -> None:
    """Write that a thumbnail is under way."""
    _change(tx, asset_id, thumbnail_state="processing", thumbnail_tried_at=NOW)


def note_thumbnail(tx: Transaction, asset: Asset, still: Still, key: str | None) -> None:
    """Name the thumbnail, with what was learned about the file on the way. The first wins."""
    changed = _change(
        tx,
        asset.id,
        thumbnail_state="completed",
        thumbnail_attempts=assets.c.thumbnail_attempts + 1,
        thumbnail_error=None,
        thumbnail_tried_at=NOW,
        thumbnail_at=NOW,
        thumbnail_key=key,
        thumbnail_metadata=dict(still.metadata),
        placeholder=placeholder_address(still.placeholder),
        preview_state="none" if key is None or asset.kind == "image" else "pending",
        width=func.coalesce(assets.c.width, still.width),
        height=func.coalesce(assets.c.height, still.height),
        duration_seconds=func.coalesce(assets.c.duration_seconds, still.duration_seconds),
    )
    if changed:
        data = {**stored_data(asset), "width": asset.width or still.width, "height": asset.height or still.height}
        append_event(tx, "asset.thumbnail", subject=asset.id, user_id=asset.user_id, data=data)


def note_kept(tx: Transaction, asset: Asset, key: str) -> None:
    """Name the object of a thumbnail that had to wait for the storage."""
    preview = "none" if asset.kind == "image" else "pending"
    _change(tx, asset.id, thumbnail_key=key, thumbnail_state="completed", preview_state=preview)
    tx.execute(delete(asset_pictures).where(asset_pictures.c.asset_id == asset.id))


def note_waiting(tx: Transaction, asset_id: str, error: str) -> None:
    """Write what keeps the thumbnail from being made; our own trouble is no attempt."""
    _change(tx, asset_id, thumbnail_state="pending", thumbnail_error=error[:ERROR_LIMIT], thumbnail_tried_at=NOW)


def note_failed(tx: Transaction, asset_id: str, error: str, *, state: str) -> None:
    """Write what went wrong; a thumbnail that is there stays."""
    _change(tx, asset_id, thumbnail_state=state, **_failure(error))


def give_up(tx: Transaction, asset_id: str, error: str, *, copy_tried: bool) -> bool:
    """Write that the last try failed; True when there is a copy that was not tried, which is worth another job.

    One statement decides by the row as it is now: a copy that completes at this very moment either is seen here, or
    sees the failure and starts the thumbnail itself.
    """
    state = "failed" if copy_tried else case((assets.c.key.is_(None), "failed"), else_="pending")
    change = update(assets).where(*_without(asset_id)).values(thumbnail_state=state, **_failure(error))
    return tx.execute(change.returning(assets.c.thumbnail_state)).scalar() == "pending"


def note_preview(tx: Transaction, asset: Asset, key: str) -> None:
    """Name the preview."""
    values = {"preview_state": "completed", "preview_error": None, "preview_key": key}
    tx.execute(update(assets).where(assets.c.id == asset.id).values(**values))
    append_event(tx, "asset.preview", subject=asset.id, user_id=asset.user_id, data=stored_data(asset))


def note_no_preview(tx: Transaction, asset_id: str, error: str) -> None:
    """Write why there is none; one that is there stays."""
    without = (assets.c.id == asset_id, assets.c.preview_key.is_(None))
    tx.execute(update(assets).where(*without).values(preview_state="failed", preview_error=error[:ERROR_LIMIT]))


def placeholder_address(picture: bytes) -> str:
    """Return the tiny picture as an address that holds it, to be shown before anything is fetched."""
    return f"data:image/webp;base64,{base64.b64encode(picture).decode()}"


def _failure(error: str) -> dict[str, Any]:
    attempts = assets.c.thumbnail_attempts + 1
    return {"thumbnail_attempts": attempts, "thumbnail_error": error[:ERROR_LIMIT], "thumbnail_tried_at": NOW}


def _change(tx: Transaction, asset_id: str, **values: Any) -> bool:
    return tx.execute(update(assets).where(*_without(asset_id)).values(**values)).rowcount > 0


def _without(asset_id: str) -> tuple[Any, ...]:
    """Return what holds for an asset whose thumbnail is not in the storage."""
    return assets.c.id == asset_id, assets.c.thumbnail_key.is_(None)
