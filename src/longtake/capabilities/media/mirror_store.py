"""Transaction functions of mirrors: the state of a copy, and the results of its tries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from longtake.capabilities.media.mirror_retry import IMPORT
from longtake.db.dialects import NOW, later, seconds_until
from longtake.engine.events import append_event
from longtake.services.alerts import Severity, raise_alert, resolve_alert
from longtake.services.assets import Asset, asset_from, assets
from longtake.services.assets.store import NOT_SAVED, stored_data

if TYPE_CHECKING:
    from longtake.adapters.storage import Stored
    from longtake.capability import FreshSource
    from longtake.db import Transaction

ERROR_LIMIT = 500


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
    _change(tx, asset.id, mirror_state="downloading", mirror_tried_at=NOW, bytes_done=0, **_announced_size(asset, size))


def note_progress(tx: Transaction, asset: Asset, state: str, bytes_done: int, size: int | None) -> None:
    """Write how far a copy is, with an event."""
    values = {"mirror_state": state, "mirror_tried_at": NOW, "bytes_done": bytes_done, **_announced_size(asset, size)}
    if _change(tx, asset.id, **values):
        data = {**stored_data(asset), "state": state, "bytes_done": bytes_done, "size": size}
        append_event(tx, "asset.progress", subject=asset.id, user_id=asset.user_id, data=data)


def note_fresh_source(tx: Transaction, asset_id: str, fresh: FreshSource) -> None:
    """Save the fresh address, but not its headers: they are secrets."""
    expires = None if fresh.expires_in is None else later(fresh.expires_in)
    _change(tx, asset_id, source_url=fresh.url, source_expires_at=expires)


def note_stored(tx: Transaction, asset: Asset, stored: Stored, content_type: str) -> None:
    """Write the key of the copy. The first one wins: a completed copy is never replaced."""
    changed = _change(
        tx,
        asset.id,
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
    append_event(tx, "asset.stored", subject=asset.id, user_id=asset.user_id, data=stored_data(asset))
    # Only a row with an earlier error can have an alert.
    if asset.mirror_error is not None:
        resolve_alert(tx, NOT_SAVED, asset.id)


def note_failure(tx: Transaction, asset_id: str, error: str, *, state: str = "pending", counted: bool = False) -> bool:
    """Write the error. Returns False, and writes nothing, when a copy exists all the same."""
    values: dict[str, Any] = {"mirror_state": state, "mirror_error": error[:ERROR_LIMIT], "mirror_tried_at": NOW}
    if counted:
        values["mirror_attempts"] = assets.c.mirror_attempts + 1
    return _change(tx, asset_id, **values)


def alert_not_saved(tx: Transaction, asset_id: str, error: str) -> None:
    """Raise an alert: CRITICAL for a paid result, WARNING for an import, whose owner chose the address."""
    is_import = tx.execute(select(assets.c.role).where(assets.c.id == asset_id)).scalar() == IMPORT
    message = (
        f"The {'import' if is_import else 'result'} {asset_id} could not be copied to our storage:"
        f" {error[:ERROR_LIMIT]} `longtake jobs list --subject {asset_id}` shows the tries."
    )
    severity = Severity.WARNING if is_import else Severity.CRITICAL
    raise_alert(tx, severity, NOT_SAVED, message, subject=asset_id)


def announce_given_up(tx: Transaction, asset: Asset, state: str) -> None:
    """Append the event of a mirror that will not be tried again by itself."""
    append_event(tx, f"asset.{state}", subject=asset.id, user_id=asset.user_id, data=stored_data(asset))


def _change(tx: Transaction, asset_id: str, **values: Any) -> bool:
    without_copy = (assets.c.id == asset_id, assets.c.mirror_state != "completed")
    return tx.execute(update(assets).where(*without_copy).values(**values)).rowcount > 0


def _announced_size(asset: Asset, size: int | None) -> dict[str, Any]:
    # The size of an existing copy stays true until another replaces it.
    return {} if size is None or asset.key is not None else {"size": size}
