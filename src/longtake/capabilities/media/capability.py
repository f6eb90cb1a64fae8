"""Media: copies of results and imports, their thumbnails and previews, and the routes of assets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from longtake.capabilities.media.health import StuckCopies
from longtake.capabilities.media.mirror import MIRROR_LANE, Mirror
from longtake.capabilities.media.removal import ObjectRemoval, Orphans
from longtake.capabilities.media.store import save_public_prefix
from longtake.capabilities.media.thumbnails import (
    PREVIEW_LANE,
    THUMBNAIL_LANE,
    CloudflareFrames,
    Previews,
    ThumbnailMaker,
    Thumbnails,
)
from longtake.capability import AssetOwner, Capability, Context, FreshSource, OwnedAsset
from longtake.errors import SettingsError

if TYPE_CHECKING:
    from longtake.db import Transaction
    from longtake.engine.jobs import Job


def capability(context: Context) -> Capability:
    """Return what media register."""
    database, storage, settings = context.database, context.storage, context.settings
    owners = AssetOwners(lambda: context.every(lambda one: one.asset_owners))
    mirror = Mirror(database, storage, context.http, settings.asset_bytes, owners, context.random)
    maker = ThumbnailMaker(storage, context.http, context.decoders, owners, _cloudflare(context))
    stuck, orphans = StuckCopies(database), Orphans(database, storage, context.clock)
    thumbnails, previews = Thumbnails(database, storage, maker), Previews(database, storage, context.decoders)
    handlers = (mirror, thumbnails, previews, stuck, orphans, ObjectRemoval(database, storage))
    return Capability(
        kinds=[one.kind() for one in handlers],
        lanes=[MIRROR_LANE, THUMBNAIL_LANE, PREVIEW_LANE],
        schedules=[stuck.schedule(), orphans.schedule()],
        routers="longtake.capabilities.media.routes:routers",
        offers=[owners],
        on_start=[partial(save_public_prefix, public_url=settings.public_url)],
    )


def _cloudflare(context: Context) -> CloudflareFrames | None:
    settings = context.settings
    if settings.thumbnail_method != "cloudflare":
        return None
    if not settings.cloudflare_media_zone:
        raise SettingsError("LONGTAKE_THUMBNAIL_METHOD is cloudflare, but LONGTAKE_CLOUDFLARE_MEDIA_ZONE is empty.")
    return CloudflareFrames(context.http, context.decoders, settings.cloudflare_media_zone)


class AssetOwners(AssetOwner):
    """All owners of assets as one: those that capabilities have registered by the time they are asked."""

    def __init__(self, owners: Callable[[], Sequence[AssetOwner]]) -> None:
        self._owners = owners

    async def download_headers(self, asset: OwnedAsset) -> Mapping[str, str]:
        return {name: value for one in self._owners() for name, value in (await one.download_headers(asset)).items()}

    async def fresh_source(self, job: Job, asset: OwnedAsset) -> FreshSource | None:
        for one in self._owners():
            if (source := await one.fresh_source(job, asset)) is not None:
                return source
        return None

    def lost(self, tx: Transaction, assets: Sequence[OwnedAsset]) -> None:
        for one in self._owners():
            one.lost(tx, assets)

    def require_unused(self, tx: Transaction, user_id: str, asset_id: str) -> None:
        for one in self._owners():
            one.require_unused(tx, user_id, asset_id)
