"""Media: copies of results and imports, their thumbnails and previews, and the routes of assets."""

from __future__ import annotations

from functools import partial

from longtake.capabilities.media.health import StuckCopies
from longtake.capabilities.media.mirror import MIRROR_LANE, Mirror
from longtake.capabilities.media.owners import AssetOwners
from longtake.capabilities.media.previews import PREVIEW_LANE, Previews
from longtake.capabilities.media.removal import ObjectRemoval, Orphans
from longtake.capabilities.media.store import save_public_prefix
from longtake.capabilities.media.thumbnail_maker import CloudflareFrames, ThumbnailMaker
from longtake.capabilities.media.thumbnails import THUMBNAIL_LANE, Thumbnails
from longtake.capability import Capability, Context
from longtake.errors import SettingsError


def capability(context: Context) -> Capability:
    """Return what media register."""
    database, storage, settings = context.database, context.storage, context.settings
    owners = AssetOwners(lambda: context.every(lambda one: one.asset_owners))
    mirror = Mirror(
        database,
        storage,
        context.http,
        most_bytes=settings.asset_bytes,
        owner=owners,
        random_source=context.random,
    )
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
