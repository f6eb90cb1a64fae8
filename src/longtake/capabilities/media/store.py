"""Transaction functions about assets as such: finding, listing and retrying them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Column, MetaData, SmallInteger, Table, Text, select, tuple_, update

from longtake.engine.control import hurry
from longtake.errors import NotFound
from longtake.services.assets import THUMBNAIL, Asset, asset_from, assets, retry_mirror
from longtake.services.assets.schemas import SAVE_STATES

if TYPE_CHECKING:
    from datetime import datetime

    from longtake.db import Transaction
    from longtake.engine.engine import Engine

#: Facts about this installation that the database's triggers and views read.
asset_facts = Table("asset_facts", MetaData(), Column("id", SmallInteger), Column("public_prefix", Text))


@dataclass(frozen=True, slots=True)
class AssetFilter:
    """Which of a user's assets to list; None means any. ``state`` is a `save_state` of the API."""

    role: str | None = None
    kind: str | None = None
    state: str | None = None


def find_asset(tx: Transaction, asset_id: str) -> Asset | None:
    """Return the asset, or None when it is gone."""
    row = tx.execute(select(assets).where(assets.c.id == asset_id)).first()
    return None if row is None else asset_from(row)


def get_asset(tx: Transaction, asset_id: str) -> Asset:
    """Return the asset of a checked signed link, of any user. Raises NotFound."""
    asset = find_asset(tx, asset_id)
    if asset is None:
        raise _no_asset(asset_id)
    return asset


def get_own_asset(tx: Transaction, asset_id: str, user_id: str) -> Asset:
    """Return the user's asset. Raises NotFound, for another user's asset too."""
    row = tx.execute(select(assets).where(assets.c.id == asset_id, assets.c.user_id == user_id)).first()
    if row is None:
        raise _no_asset(asset_id)
    return asset_from(row)


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
    order = tuple_(assets.c.created_at, assets.c.id)
    if before is not None:
        conditions.append(order < before)
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


def _no_asset(asset_id: str) -> NotFound:
    return NotFound(f"There is no asset {asset_id!r}.", hint="")
