"""What mirroring asks about results of tasks, answered by generation: the two capabilities do not know each other."""

from __future__ import annotations

from collections.abc import Mapping

from longtake.capabilities.generation.sources import Sources
from longtake.capabilities.media.sources import FreshSource
from longtake.services.assets import Asset


class TaskSources:
    """Where results can be fetched, as mirroring wants to know it."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    async def download_headers(self, asset: Asset) -> Mapping[str, str]:
        return await self._sources.headers(asset)

    async def fresh(self, asset: Asset) -> FreshSource | None:
        renewed = await self._sources.renew(asset)
        return None if renewed is None else FreshSource(renewed.url, renewed.headers, renewed.expires_in)
