"""Assets as all capabilities share them: the rows, how one is registered, and how readers reach its file."""

from longtake.asset_registry.assets import Asset, NewAsset, asset_from, assets
from longtake.asset_registry.handing import keep_bytes, reference_for_provider
from longtake.asset_registry.links import AssetLinks
from longtake.asset_registry.register import (
    MIRROR,
    assets_of_tasks,
    find_assets,
    register_asset,
    register_assets,
    retry_mirror,
)
from longtake.asset_registry.views import AssetView, show_asset

__all__ = [
    "MIRROR",
    "Asset",
    "AssetLinks",
    "AssetView",
    "NewAsset",
    "asset_from",
    "assets",
    "assets_of_tasks",
    "find_assets",
    "keep_bytes",
    "reference_for_provider",
    "register_asset",
    "register_assets",
    "retry_mirror",
    "show_asset",
]
