"""Connects media, which copies results, to generation, which knows their providers: neither imports the other."""

from __future__ import annotations

from collections.abc import Mapping

from longtake.capabilities.generation.sources import TaskResults
from longtake.capabilities.media.sources import FreshSource
from longtake.services.assets import Asset


class TaskSources:
    """Where results can be downloaded, in the form that media asks for."""

    def __init__(self, results: TaskResults) -> None:
        self._results = results

    async def download_headers(self, asset: Asset) -> Mapping[str, str]:
        return await self._results.headers(asset)

    async def fresh(self, asset: Asset) -> FreshSource | None:
        renewed = await self._results.renew(asset)
        return None if renewed is None else FreshSource(renewed.url, renewed.headers, renewed.expires_in)
