"""Reading one user's assets, newest first, and giving one that failed another chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select, tuple_, update

from longtake.capabilities.media.mirror_store import own_asset
from longtake.engine.control import hurry
from longtake.services.assets import THUMBNAIL, Asset, asset_from, assets, retry_mirror
from longtake.services.assets.schemas import SAVE_STATES

if TYPE_CHECKING:
    from datetime import datetime

    from longtake.db import Transaction
    from longtake.engine.engine import Engine


@dataclass(frozen=True, slots=True)
class Filter:
    """Which of a user's assets; None means any. ``state`` is a word that callers know."""

    role: str | None = None
    kind: str | None = None
    state: str | None = None


def list_assets(
    tx: Transaction, user_id: str, wanted: Filter, before: tuple[datetime, str] | None, limit: int
) -> list[Asset]:
    """Return a page. Rows that others wrote have ids without a time in them: when they were made is the order."""
    conditions = [assets.c.user_id == user_id]
    if wanted.role is not None:
        conditions.append(assets.c.role == wanted.role)
    if wanted.kind is not None:
        conditions.append(assets.c.kind == wanted.kind)
    if wanted.state is not None:
        states = [name for name, word in SAVE_STATES.items() if word == wanted.state]
        conditions.append(assets.c.mirror_state.in_(states))
    order = tuple_(assets.c.created_at, assets.c.id)
    if before is not None:
        conditions.append(order < before)
    page = select(assets).where(*conditions).order_by(assets.c.created_at.desc(), assets.c.id.desc()).limit(limit)
    return [asset_from(row) for row in tx.execute(page)]


def retry_asset(
    tx: Transaction, engine: Engine, user_id: str, asset_id: str, *, force: bool, request_id: str | None = None
) -> Asset:
    """Try at once what is missing, copy and thumbnail each; ``force`` copies even what is here. Return the asset."""
    asset = own_asset(tx, asset_id, user_id)
    if asset.role == "reference" or asset.status != "completed":
        return asset
    if force and asset.source_url is not None:
        # The row itself starts the copy, as it does for whoever writes SQL.
        tx.execute(update(assets).where(assets.c.id == asset_id).values(force=True))
        tx.signal("jobs")
    elif asset.key is None and asset.mirror_state != "none":
        retry_mirror(tx, engine, [asset_id], request_id)
    if asset.thumbnail_state == "failed" or (asset.thumbnail_state == "pending" and asset.thumbnail_error):
        tx.execute(update(assets).where(assets.c.id == asset_id).values(thumbnail_state="pending"))
        engine.enqueue(tx, THUMBNAIL, {"asset": asset_id}, key=asset_id, subject=asset_id, request_id=request_id)
        hurry(tx, THUMBNAIL, [asset_id])
    return own_asset(tx, asset_id, user_id)
