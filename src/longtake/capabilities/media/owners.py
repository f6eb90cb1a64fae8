"""All owners of assets as one: whatever media asks, the one that knows the asset answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from longtake.capability import AssetOwner, FreshSource, OwnedAsset

if TYPE_CHECKING:
    from longtake.db import Transaction
    from longtake.engine.jobs import Job


class AssetOwners(AssetOwner):
    """The owners that capabilities have registered by the time they are asked."""

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
