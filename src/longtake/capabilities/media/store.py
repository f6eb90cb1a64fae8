"""Transaction functions of media: assets found, listed and retried, and what jobs write about copies and pictures."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, LargeBinary, MetaData, Table, Text, case, delete, func, insert, select, tuple_, update

from longtake.capabilities.media.mirror_retry import IMPORT
from longtake.db.dialects import NOW, Identifier, later, seconds_until
from longtake.engine.control import hurry
from longtake.engine.events import append_event
from longtake.engine.tables import metadata
from longtake.errors import NotFound
from longtake.services.alerts import Severity, raise_alert, resolve_alert
from longtake.services.assets import THUMBNAIL, Asset, asset_from, assets, find_assets, retry_mirror
from longtake.services.assets.schemas import SAVE_STATES
from longtake.services.assets.store import NOT_SAVED, stored_data

if TYPE_CHECKING:
    from datetime import datetime

    from longtake.adapters.storage import Stored
    from longtake.capabilities.media.thumbnails import Thumbnail
    from longtake.capability import FreshSource
    from longtake.db import Transaction
    from longtake.engine.engine import Engine

#: Facts about this installation that the database's triggers and views read.
asset_facts = Table("asset_facts", MetaData(), Column("public_prefix", Text))
#: Thumbnails that wait for the storage. They are deleted with their asset.
asset_pictures = Table(
    "asset_pictures",
    metadata,
    Column("asset_id", Identifier, primary_key=True),
    Column("user_id", Text),
    Column("picture", LargeBinary),
)
ERROR_LIMIT = 500


@dataclass(frozen=True, slots=True)
class AssetFilter:
    """Which of a user's assets to list; None means any. ``state`` is a `save_state` of the API."""

    role: str | None = None
    kind: str | None = None
    state: str | None = None


def find_asset(tx: Transaction, asset_id: str) -> Asset | None:
    """Return the asset of any user, or None when it is gone."""
    return find_assets(tx, [asset_id]).get(asset_id)


def get_own_asset(tx: Transaction, asset_id: str, user_id: str) -> Asset:
    """Return the user's asset. Raises NotFound, for another user's asset too."""
    asset = find_assets(tx, [asset_id], user_id).get(asset_id)
    if asset is None:
        raise NotFound(f"There is no asset {asset_id!r}.", hint="")
    return asset


def list_assets(
    tx: Transaction, user_id: str, wanted: AssetFilter, before: tuple[datetime, str] | None, limit: int
) -> list[Asset]:
    """Return a page, newest first. Ordered by time: ids that an application wrote need not contain one."""
    conditions = [assets.c.user_id == user_id]
    if wanted.role is not None:
        conditions.append(assets.c.role == wanted.role)
    if wanted.kind is not None:
        conditions.append(assets.c.kind == wanted.kind)
    if wanted.state is not None:
        states = [name for name, word in SAVE_STATES.items() if word == wanted.state]
        conditions.append(assets.c.mirror_state.in_(states))
    if before is not None:
        conditions.append(tuple_(assets.c.created_at, assets.c.id) < before)
    page = select(assets).where(*conditions).order_by(assets.c.created_at.desc(), assets.c.id.desc()).limit(limit)
    return [asset_from(row) for row in tx.execute(page)]


def retry_asset(
    tx: Transaction, engine: Engine, user_id: str, asset_id: str, *, force: bool, request_id: str | None = None
) -> Asset:
    """Start the missing copy and thumbnail at once, and return the asset. ``force`` copies again what is stored."""
    asset = get_own_asset(tx, asset_id, user_id)
    if asset.role == "reference" or asset.status != "completed":
        return asset
    if force and asset.source_url is not None:
        # The row's trigger starts the copy, as it does for applications that write SQL.
        tx.execute(update(assets).where(assets.c.id == asset_id).values(force=True))
        tx.signal("jobs")
    elif asset.key is None and asset.mirror_state != "none":
        retry_mirror(tx, engine, [asset_id], request_id)
    if asset.thumbnail_state == "failed" or (asset.thumbnail_state == "pending" and asset.thumbnail_error):
        tx.execute(update(assets).where(assets.c.id == asset_id).values(thumbnail_state="pending"))
        engine.enqueue(tx, THUMBNAIL, {"asset": asset_id}, key=asset_id, subject=asset_id, request_id=request_id)
        hurry(tx, THUMBNAIL, [asset_id])
    return get_own_asset(tx, asset_id, user_id)


def save_public_prefix(tx: Transaction, public_url: str) -> None:
    """Save how addresses of our own files begin, for the database's triggers and views.

    Nothing changes without a public address: a process that has none must not erase another's.
    """
    if not public_url:
        return
    prefix = f"{public_url.rstrip('/')}/v1/assets/"
    tx.execute(update(asset_facts).where(asset_facts.c.public_prefix != prefix).values(public_prefix=prefix))


def announce(tx: Transaction, asset: Asset, what: str, **more: Any) -> None:
    """Append an event about the asset."""
    data = stored_data(asset) | more
    append_event(tx, f"asset.{what}", subject=asset.id, user_id=asset.user_id, data=data)


# -- copies ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExpiringAsset:
    """An asset, and how many seconds its source address still lives by the database's clock; None if unknown."""

    asset: Asset
    seconds_left: float | None


def read_expiring_asset(tx: Transaction, asset_id: str) -> ExpiringAsset | None:
    """Return the asset and the time its source has left, or None when the asset is gone."""
    left = seconds_until(assets.c.source_expires_at).label("seconds_left")
    row = tx.execute(select(assets, left).where(assets.c.id == asset_id)).first()
    return None if row is None else ExpiringAsset(asset_from(row), row.seconds_left)


def note_started(tx: Transaction, asset: Asset, size: int | None) -> None:
    """Write that the file is arriving, with its size if the source announced it."""
    values = {"mirror_state": "downloading", "mirror_tried_at": NOW, "bytes_done": 0}
    _change(tx, _without_copy(asset.id), **values, **_announced_size(asset, size))


def note_progress(tx: Transaction, asset: Asset, state: str, bytes_done: int, size: int | None) -> None:
    """Write how far a copy is, with an event."""
    values = {"mirror_state": state, "mirror_tried_at": NOW, "bytes_done": bytes_done}
    if _change(tx, _without_copy(asset.id), **values, **_announced_size(asset, size)):
        announce(tx, asset, "progress", state=state, bytes_done=bytes_done, size=size)


def note_fresh_source(tx: Transaction, asset_id: str, fresh: FreshSource) -> None:
    """Save the fresh address, but not its headers: they are secrets."""
    expires = None if fresh.expires_in is None else later(fresh.expires_in)
    _change(tx, _without_copy(asset_id), source_url=fresh.url, source_expires_at=expires)


def note_stored(tx: Transaction, asset: Asset, stored: Stored, content_type: str) -> None:
    """Write the key of the copy. The first one wins: a completed copy is never replaced."""
    changed = _change(
        tx,
        _without_copy(asset.id),
        mirror_state="completed",
        mirror_attempts=assets.c.mirror_attempts + 1,
        mirror_error=None,
        mirror_tried_at=NOW,
        mirrored_at=NOW,
        key=stored.key,
        size=stored.size,
        bytes_done=stored.size,
        checksum=stored.checksum,
        content_type=content_type,
    )
    if not changed:
        return
    announce(tx, asset, "stored")
    # Only a row with an earlier error can have an alert.
    if asset.mirror_error is not None:
        resolve_alert(tx, NOT_SAVED, asset.id)


def note_failure(tx: Transaction, asset_id: str, error: str, *, state: str = "pending", counted: bool = False) -> bool:
    """Write the error. Returns False, and writes nothing, when a copy exists all the same."""
    values: dict[str, Any] = {"mirror_state": state, "mirror_error": error[:ERROR_LIMIT], "mirror_tried_at": NOW}
    if counted:
        values["mirror_attempts"] = assets.c.mirror_attempts + 1
    return _change(tx, _without_copy(asset_id), **values)


def alert_not_saved(tx: Transaction, asset_id: str, error: str) -> None:
    """Raise an alert: CRITICAL for a paid result, WARNING for an import, whose owner chose the address."""
    is_import = tx.execute(select(assets.c.role).where(assets.c.id == asset_id)).scalar() == IMPORT
    message = (
        f"The {'import' if is_import else 'result'} {asset_id} could not be copied to our storage:"
        f" {error[:ERROR_LIMIT]} `longtake jobs list --subject {asset_id}` shows the tries."
    )
    severity = Severity.WARNING if is_import else Severity.CRITICAL
    raise_alert(tx, severity, NOT_SAVED, message, subject=asset_id)


def _without_copy(asset_id: str) -> tuple[Any, ...]:
    return assets.c.id == asset_id, assets.c.mirror_state != "completed"


def _announced_size(asset: Asset, size: int | None) -> dict[str, Any]:
    # The size of an existing copy stays true until another replaces it.
    return {} if size is None or asset.key is not None else {"size": size}


# -- thumbnails and previews -----------------------------------------------------------------------------------------


def waiting_thumbnail(tx: Transaction, asset_id: str) -> bytes | None:
    """Return a thumbnail that waits for the storage, or None."""
    found = tx.execute(select(asset_pictures.c.picture).where(asset_pictures.c.asset_id == asset_id)).scalar()
    return None if found is None else bytes(found)


def keep_thumbnail(tx: Transaction, asset: Asset, picture: bytes) -> None:
    """Keep a thumbnail until the storage accepts it, unless the asset has been deleted."""
    if find_asset(tx, asset.id) is not None:
        tx.execute(insert(asset_pictures).values(asset_id=asset.id, user_id=asset.user_id, picture=picture))


def note_thumbnail_started(tx: Transaction, asset_id: str) -> None:
    """Write that a thumbnail is being made."""
    _change(tx, _without_thumbnail(asset_id), thumbnail_state="processing", thumbnail_tried_at=NOW)


def note_thumbnail(tx: Transaction, asset: Asset, thumbnail: Thumbnail, key: str | None) -> None:
    """Write the thumbnail's key, with the size and duration of the file. The first thumbnail wins."""
    # A tiny picture as a `data:` URL, which pages show until the thumbnail has loaded.
    placeholder = f"data:image/webp;base64,{base64.b64encode(thumbnail.placeholder).decode()}"
    changed = _change(
        tx,
        _without_thumbnail(asset.id),
        thumbnail_state="completed",
        thumbnail_attempts=assets.c.thumbnail_attempts + 1,
        thumbnail_error=None,
        thumbnail_tried_at=NOW,
        thumbnail_at=NOW,
        thumbnail_key=key,
        thumbnail_metadata=dict(thumbnail.metadata),
        placeholder=placeholder,
        preview_state="none" if key is None or asset.kind == "image" else "pending",
        width=func.coalesce(assets.c.width, thumbnail.width),
        height=func.coalesce(assets.c.height, thumbnail.height),
        duration_seconds=func.coalesce(assets.c.duration_seconds, thumbnail.duration_seconds),
    )
    if changed:
        width, height = asset.width or thumbnail.width, asset.height or thumbnail.height
        announce(tx, asset, "thumbnail", width=width, height=height)


def note_stored_thumbnail(tx: Transaction, asset: Asset, key: str) -> None:
    """Write the key of a thumbnail that has waited for the storage."""
    preview = "none" if asset.kind == "image" else "pending"
    values = {"thumbnail_key": key, "thumbnail_state": "completed", "preview_state": preview}
    _change(tx, _without_thumbnail(asset.id), **values)
    tx.execute(delete(asset_pictures).where(asset_pictures.c.asset_id == asset.id))


def note_thumbnail_failure(
    tx: Transaction, asset_id: str, error: str, *, state: str = "pending", counted: bool = True
) -> None:
    """Write the error, unless a thumbnail exists."""
    values = _failure(error) if counted else {"thumbnail_error": error[:ERROR_LIMIT], "thumbnail_tried_at": NOW}
    _change(tx, _without_thumbnail(asset_id), thumbnail_state=state, **values)


def give_up_thumbnail(tx: Transaction, asset_id: str, error: str, *, copy_tried: bool) -> bool:
    """Write that the last try failed. Returns True when an untried copy exists, which is worth another job.

    One statement decides by the current row: a copy that completes at this moment is either seen here, or its trigger
    sees the failure and starts the thumbnail.
    """
    state = "failed" if copy_tried else case((assets.c.key.is_(None), "failed"), else_="pending")
    change = update(assets).where(*_without_thumbnail(asset_id)).values(thumbnail_state=state, **_failure(error))
    return tx.execute(change.returning(assets.c.thumbnail_state)).scalar() == "pending"


def note_preview(tx: Transaction, asset: Asset, key: str) -> None:
    """Write the key of the preview."""
    _change(tx, (assets.c.id == asset.id,), preview_state="completed", preview_error=None, preview_key=key)
    announce(tx, asset, "preview")


def note_no_preview(tx: Transaction, asset_id: str, error: str) -> None:
    """Write why there is no preview, unless one exists."""
    without = (assets.c.id == asset_id, assets.c.preview_key.is_(None))
    _change(tx, without, preview_state="failed", preview_error=error[:ERROR_LIMIT])


def _without_thumbnail(asset_id: str) -> tuple[Any, ...]:
    return assets.c.id == asset_id, assets.c.thumbnail_key.is_(None)


def _failure(error: str) -> dict[str, Any]:
    attempts = assets.c.thumbnail_attempts + 1
    return {"thumbnail_attempts": attempts, "thumbnail_error": error[:ERROR_LIMIT], "thumbnail_tried_at": NOW}


def _change(tx: Transaction, which: tuple[Any, ...], **values: Any) -> bool:
    """Change the row if it is as expected; say whether it was."""
    return tx.execute(update(assets).where(*which).values(**values)).rowcount > 0
