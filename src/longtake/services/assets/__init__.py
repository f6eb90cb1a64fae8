"""Assets as all capabilities share them: the rows, how one is registered, and how readers reach its file."""

from longtake.services.assets.assets import Asset, NewAsset, asset_from, assets
from longtake.services.assets.files import keep_bytes, keep_paid_bytes, reference_for_provider
from longtake.services.assets.links import Addresses, AssetLinks, Variant, brought_thumbnail
from longtake.services.assets.register import (
    MIRROR,
    PREVIEW,
    THUMBNAIL,
    assets_of_tasks,
    find_assets,
    register_asset,
    register_assets,
    retry_mirror,
)
from longtake.services.assets.schemas import AssetView, show_asset

__all__ = [
    "MIRROR",
    "PREVIEW",
    "THUMBNAIL",
    "Addresses",
    "Asset",
    "AssetLinks",
    "AssetView",
    "NewAsset",
    "Variant",
    "asset_from",
    "assets",
    "assets_of_tasks",
    "brought_thumbnail",
    "find_assets",
    "keep_bytes",
    "keep_paid_bytes",
    "reference_for_provider",
    "register_asset",
    "register_assets",
    "retry_mirror",
    "show_asset",
]
