"""Finds, lists and retries assets, stores reference images, and saves our public prefix for the triggers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Column, MetaData, SmallInteger, Table, Text, select, tuple_, update

from longtake.adapters.decoder.errors import MediaRefused
from longtake.adapters.storage.keys import FIRST_BYTES, JPEG, PNG, WEBP, MediaType, media_type, reference_key
from longtake.capabilities.media.thumbnail_maker import image_size
from longtake.clock import new_id
from longtake.engine.control import hurry
from longtake.errors import NotFound
from longtake.services.assets import (
    THUMBNAIL,
    Asset,
    NewAsset,
    asset_from,
    assets,
    find_assets,
    register_asset,
    retry_mirror,
)
from longtake.services.assets.schemas import SAVE_STATES

if TYPE_CHECKING:
    from datetime import datetime

    from longtake.adapters.storage import Storage
    from longtake.db import Database, Transaction
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


TAKEN = {one.content_type: one for one in (PNG, JPEG, WEBP)}
HINT = "Send the bytes of the file as the body, with Content-Type image/png, image/jpeg or image/webp."


class References:
    """Stores reference images: checks the image, stores the object, then writes the row."""

    def __init__(self, database: Database, storage: Storage) -> None:
        self._database = database
        self._storage = storage

    async def add(self, user_id: str, body: bytes, content_type: str, request_id: str | None = None) -> Asset:
        """Store an image and return its asset. The same bytes again make another reference."""
        media = check_reference(body, content_type)
        width, height = image_size(body, media)
        asset_id = new_id()
        key = reference_key(asset_id, media.extension)
        stored = await self._storage.put(key, body, media.content_type, file_name=f"{asset_id}.{media.extension}")
        new = NewAsset(
            id=asset_id,
            user_id=user_id,
            role="reference",
            kind="image",
            key=key,
            content_type=media.content_type,
            size=stored.size,
            checksum=stored.checksum,
            width=width,
            height=height,
        )
        await self._database.run(register_asset, new, request_id)
        return (await self._database.read(find_assets, [asset_id], user_id, as_user=user_id))[asset_id]


def check_reference(body: bytes, content_type: str) -> MediaType:
    """Return the media type of the bytes. Raises MediaRefused unless it is the claimed one."""
    claimed = TAKEN.get(content_type.partition(";")[0].strip().lower())
    found = media_type(body[:FIRST_BYTES])
    if claimed is None or found != claimed:
        what = f"of type {found.content_type}" if found else "no image of a supported type"
        raise MediaRefused(f"The body is {what}; its Content-Type says {content_type[:100]!r}.", hint=HINT)
    return claimed
