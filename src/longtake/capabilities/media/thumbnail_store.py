"""Transaction functions of thumbnails and previews: their states, and the results of their tries."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, LargeBinary, Table, Text, case, delete, func, insert, select, update

from longtake.capabilities.media.store import find_asset
from longtake.db.dialects import NOW, Identifier
from longtake.engine.events import append_event
from longtake.engine.tables import metadata
from longtake.services.assets import Asset, assets
from longtake.services.assets.store import stored_data

if TYPE_CHECKING:
    from longtake.capabilities.media.thumbnail_maker import Thumbnail
    from longtake.db import Transaction

#: Thumbnails that wait for the storage. They are deleted with their asset.
asset_pictures = Table(
    "asset_pictures",
    metadata,
    Column("asset_id", Identifier, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("picture", LargeBinary, nullable=False),
)

ERROR_LIMIT = 500


def waiting_thumbnail(tx: Transaction, asset_id: str) -> bytes | None:
    """Return a thumbnail that waits for the storage, or None."""
    found = tx.execute(select(asset_pictures.c.picture).where(asset_pictures.c.asset_id == asset_id)).scalar()
    return None if found is None else bytes(found)


def keep_thumbnail(tx: Transaction, asset: Asset, picture: bytes) -> None:
    """Keep a thumbnail until the storage accepts it, unless the asset has been deleted."""
    if find_asset(tx, asset.id) is not None:
        tx.execute(insert(asset_pictures).values(asset_id=asset.id, user_id=asset.user_id, picture=picture))


def note_processing(tx: Transaction, asset_id: str) -> None:
    """Write that a thumbnail is being made."""
    _change(tx, asset_id, thumbnail_state="processing", thumbnail_tried_at=NOW)


def note_thumbnail(tx: Transaction, asset: Asset, thumbnail: Thumbnail, key: str | None) -> None:
    """Write the thumbnail's key, with the size and duration of the file. The first thumbnail wins."""
    changed = _change(
        tx,
        asset.id,
        thumbnail_state="completed",
        thumbnail_attempts=assets.c.thumbnail_attempts + 1,
        thumbnail_error=None,
        thumbnail_tried_at=NOW,
        thumbnail_at=NOW,
        thumbnail_key=key,
        thumbnail_metadata=dict(thumbnail.metadata),
        placeholder=_data_url(thumbnail.placeholder),
        preview_state="none" if key is None or asset.kind == "image" else "pending",
        width=func.coalesce(assets.c.width, thumbnail.width),
        height=func.coalesce(assets.c.height, thumbnail.height),
        duration_seconds=func.coalesce(assets.c.duration_seconds, thumbnail.duration_seconds),
    )
    if changed:
        data = {
            **stored_data(asset),
            "width": asset.width or thumbnail.width,
            "height": asset.height or thumbnail.height,
        }
        append_event(tx, "asset.thumbnail", subject=asset.id, user_id=asset.user_id, data=data)


def note_stored_thumbnail(tx: Transaction, asset: Asset, key: str) -> None:
    """Write the key of a thumbnail that has waited for the storage."""
    preview = "none" if asset.kind == "image" else "pending"
    _change(tx, asset.id, thumbnail_key=key, thumbnail_state="completed", preview_state=preview)
    tx.execute(delete(asset_pictures).where(asset_pictures.c.asset_id == asset.id))


def note_waiting(tx: Transaction, asset_id: str, error: str) -> None:
    """Write an error that counts as no attempt: our own storage failed."""
    _change(tx, asset_id, thumbnail_state="pending", thumbnail_error=error[:ERROR_LIMIT], thumbnail_tried_at=NOW)


def note_failed(tx: Transaction, asset_id: str, error: str, *, state: str) -> None:
    """Write the error, unless a thumbnail exists."""
    _change(tx, asset_id, thumbnail_state=state, **_failure(error))


def give_up(tx: Transaction, asset_id: str, error: str, *, copy_tried: bool) -> bool:
    """Write that the last try failed. Returns True when an untried copy exists, which is worth another job.

    One statement decides by the current row: a copy that completes at this moment is either seen here, or its trigger
    sees the failure and starts the thumbnail.
    """
    state = "failed" if copy_tried else case((assets.c.key.is_(None), "failed"), else_="pending")
    change = update(assets).where(*_without(asset_id)).values(thumbnail_state=state, **_failure(error))
    return tx.execute(change.returning(assets.c.thumbnail_state)).scalar() == "pending"


def note_preview(tx: Transaction, asset: Asset, key: str) -> None:
    """Write the key of the preview."""
    values = {"preview_state": "completed", "preview_error": None, "preview_key": key}
    tx.execute(update(assets).where(assets.c.id == asset.id).values(**values))
    append_event(tx, "asset.preview", subject=asset.id, user_id=asset.user_id, data=stored_data(asset))


def note_no_preview(tx: Transaction, asset_id: str, error: str) -> None:
    """Write why there is no preview, unless one exists."""
    without = (assets.c.id == asset_id, assets.c.preview_key.is_(None))
    tx.execute(update(assets).where(*without).values(preview_state="failed", preview_error=error[:ERROR_LIMIT]))


def _data_url(picture: bytes) -> str:
    """Return a tiny picture as a `data:` URL, which pages show until the thumbnail has loaded."""
    return f"data:image/webp;base64,{base64.b64encode(picture).decode()}"


def _failure(error: str) -> dict[str, Any]:
    attempts = assets.c.thumbnail_attempts + 1
    return {"thumbnail_attempts": attempts, "thumbnail_error": error[:ERROR_LIMIT], "thumbnail_tried_at": NOW}


def _change(tx: Transaction, asset_id: str, **values: Any) -> bool:
    return tx.execute(update(assets).where(*_without(asset_id)).values(**values)).rowcount > 0


def _without(asset_id: str) -> tuple[Any, ...]:
    """Return the conditions for an asset without a stored thumbnail."""
    return assets.c.id == asset_id, assets.c.thumbnail_key.is_(None)
