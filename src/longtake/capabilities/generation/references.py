"""Reference images on their way to a provider, in the form it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from longtake.adapters.providers.provider import Provider, Reference
from longtake.adapters.storage import Storage
from longtake.capabilities.generation.tables import Task
from longtake.db import Database
from longtake.errors import AssetGone
from longtake.services.assets import AssetLinks, find_assets, reference_for_provider


class ReferenceLoader:
    """Loads a task's references when it is submitted."""

    def __init__(self, database: Database, storage: Storage, links: Callable[[], AssetLinks]) -> None:
        self._database = database
        self._storage = storage
        self._links = links

    async def __call__(self, task: Task, provider: Provider) -> Sequence[Reference]:
        """Return the references in the order they were asked for; AssetGone when one is gone."""
        takes = provider.takes_references
        if not task.references or takes is None:
            return ()
        found = await self._database.read(find_assets, task.references, task.user_id)
        missing = [one for one in task.references if one not in found]
        if missing:
            raise AssetGone(f"The reference image {missing[0]} is gone.")
        links = self._links()
        return [await reference_for_provider(self._storage, links, found[one], takes) for one in task.references]
