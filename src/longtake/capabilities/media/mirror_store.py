"""Transaction functions: where the copy of an asset stands, and what became of a try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from longtake.db.dialects import NOW, later, seconds_until
from longtake.engine.events import append_event
from longtake.errors import NotFound
from longtake.services.alerts import Severity, raise_alert, resolve_alert
from longtake.services.assets import Asset, asset_from, assets
from longtake.services.assets.store import NOT_SAVED, stored_data

if TYPE_CHECKING:
    from longtake.adapters.storage import Stored
    from longtake.capabilities.media.sources import FreshSource
    from longtake.db import Transaction

ERROR_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Mirroring:
    """An asset, and for how many seconds its source still lives by the database's clock; None: nobody knows."""

    asset: Asset
    seconds_left: float | None


def read_mirroring(tx: Transaction, asset_id: str) -> Mirroring | None:
    """Return what a copy must know, or None when the asset is gone."""
    left = seconds_until(assets.c.source_expires_at).label("seconds_left")
    row = tx.execute(select(assets, left).where(assets.c.id == asset_id)).first()
    return None if row is None else Mirroring(asset_from(row), row.seconds_left)


def own_asset(tx: Transaction, asset_id: str, user_id: str) -> Asset:
    """Return one of the user's assets; of others' it says no more than that it is not there."""
    row = tx.execute(select(assets).where(assets.c.id == asset_id, assets.c.user_id == user_id)).first()
    if row is None:
        raise NotFound(f"There is no asset {asset_id!r}.", hint="")
    return asset_from(row)


def any_asset(tx: Transaction, asset_id: str) -> Asset:
    """Return an asset whose signed link was checked."""
    row = tx.execute(select(assets).where(assets.c.id == asset_id)).first()
    if row is None:
        raise NotFound(f"There is no asset {asset_id!r}.", hint="")
    return asset_from(row)


def note_begun(tx: Transaction, asset: Asset, size: int | None) -> None:
    """Write that the file comes; how large it will be, if its source says it."""
    _change(tx, asset.id, mirror_state="downloading", mirror_tried_at=NOW, bytes_done=0, **_announced(asset, size))


def note_progress(tx: Transaction, asset: Asset, state: str, bytes_done: int, size: int | None) -> None:
    """Write where a copy stands in the middle of its run, and tell it."""
    values = {"mirror_state": state, "mirror_tried_at": NOW, "bytes_done": bytes_done, **_announced(asset, size)}
    if _change(tx, asset.id, **values):
        data = {**stored_data(asset), "state": state, "bytes_done": bytes_done, "size": size}
        append_event(tx, "asset.progress", subject=asset.id, user_id=asset.user_id, data=data)


def note_fresh_source(tx: Transaction, asset_id: str, fresh: FreshSource) -> None:
    """Keep the new address; its headers are secrets and are not kept."""
    expires = None if fresh.expires_in is None else later(fresh.expires_in)
    _change(tx, asset_id, source_url=fresh.url, source_expires_at=expires)


def note_stored(tx: Transaction, asset: Asset, stored: Stored, content_type: str) -> None:
    """Name the object that counts. The first wins: a copy that is there is never replaced."""
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
    # An earlier failure left its trace in the row; without one there can be no alert.
    if asset.mirror_error is not None:
        resolve_alert(tx, NOT_SAVED, asset.id)


def note_failure(tx: Transaction, asset_id: str, error: str, *, state: str = "pending", counted: bool = False) -> bool:
    """Write what went wrong; False when our copy is there all the same."""
    values: dict[str, Any] = {"mirror_state": state, "mirror_error": error[:ERROR_LIMIT], "mirror_tried_at": NOW}
    if counted:
        values["mirror_attempts"] = assets.c.mirror_attempts + 1
    return _change(tx, asset_id, **values)


def alert_not_saved(tx: Transaction, asset_id: str, error: str) -> None:
    """Tell people that a result which somebody paid for may be lost."""
    message = (
        f"The result {asset_id} could not be copied to our storage: {error[:ERROR_LIMIT]}"
        f" `longtake jobs list --subject {asset_id}` shows the tries."
    )
    raise_alert(tx, Severity.CRITICAL, NOT_SAVED, message, subject=asset_id)


def tell_given_up(tx: Transaction, asset: Asset, state: str) -> None:
    """Write the event of a copy that will not come by itself any more."""
    append_event(tx, f"asset.{state}", subject=asset.id, user_id=asset.user_id, data=stored_data(asset))


def _change(tx: Transaction, asset_id: str, **values: Any) -> bool:
    without_copy = (assets.c.id == asset_id, assets.c.mirror_state != "completed")
    return tx.execute(update(assets).where(*without_copy).values(**values)).rowcount > 0


def _announced(asset: Asset, size: int | None) -> dict[str, Any]:
    # The size of a copy that is there stays true until another takes its place.
    return {} if size is None or asset.key is not None else {"size": size}
