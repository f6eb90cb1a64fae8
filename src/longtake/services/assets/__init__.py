"""Assets, shared by all capabilities: their rows, how one is registered, and links to its file."""

from longtake.services.assets.files import Addresses, AssetLinks, Variant, keep_paid_bytes, reference_for_provider
from longtake.services.assets.schemas import AssetView, show_asset
from longtake.services.assets.store import (
    MIRROR,
    PREVIEW,
    THUMBNAIL,
    assets_of_tasks,
    find_assets,
    register_asset,
    register_assets,
    retry_mirror,
)
from longtake.services.assets.tables import Asset, NewAsset, asset_from, assets

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
    "find_assets",
    "keep_paid_bytes",
    "reference_for_provider",
    "register_asset",
    "register_assets",
    "retry_mirror",
    "show_asset",
]
