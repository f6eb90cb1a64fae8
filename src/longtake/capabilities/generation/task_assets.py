"""Generation as the owner of its tasks' assets: where results come from, and what references are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from sqlalchemy import select

from longtake.adapters.providers.errors import ProviderUnavailable
from longtake.adapters.providers.provider import Provider, Succeeded
from longtake.capabilities.generation.jobs import QUERY_SECONDS, query_task
from longtake.capabilities.generation.removal import require_unused
from longtake.capabilities.generation.tables import tasks
from longtake.capabilities.generation.tasks import refund_lost
from longtake.capability import AssetOwner, FreshSource, OwnedAsset
from longtake.db import Database, Transaction
from longtake.engine.jobs import Job
from longtake.engine.outcomes import Fail, Snooze
from longtake.services.provider_calls import Breaker, ask_provider


class TaskAssets(AssetOwner):
    """Asks the provider of a result's task; gives the price back when a result is lost."""

    def __init__(self, database: Database, providers: Mapping[str, Provider], breaker: Breaker) -> None:
        self._database = database
        self._providers = providers
        self._breaker = breaker

    async def download_headers(self, asset: OwnedAsset) -> Mapping[str, str]:
        provider, _remote = await self._provider(asset)
        return {} if provider is None or asset.source_url is None else provider.download_headers(asset.source_url)

    async def fresh_source(self, job: Job, asset: OwnedAsset) -> FreshSource | None:
        """Query the provider for the result once more; return None when it no longer has it.

        Raises ProviderUnavailable when it cannot be asked now.
        """
        provider, remote = await self._provider(asset)
        if provider is None or remote is None:
            return None
        query, lane = partial(query_task, provider, remote), provider.query_lane.name
        answer = await ask_provider(job, provider, query, QUERY_SECONDS, breaker=self._breaker, lane=lane)
        if isinstance(answer, Snooze | Fail):
            raise ProviderUnavailable(answer.message or f"{provider.name} cannot be asked.", provider=provider.name)
        if not isinstance(answer, Succeeded) or asset.position >= len(answer.files):
            return None
        url = answer.files[asset.position].url
        return FreshSource(url, provider.download_headers(url), answer.expires_in)

    def lost(self, tx: Transaction, assets: Sequence[OwnedAsset]) -> None:
        refund_lost(tx, assets)

    def require_unused(self, tx: Transaction, user_id: str, asset_id: str) -> None:
        require_unused(tx, user_id, asset_id)

    async def _provider(self, asset: OwnedAsset) -> tuple[Provider | None, str | None]:
        if asset.task_id is None:
            return None, None
        name, remote = await self._database.read(_provider_of, asset.task_id)
        return self._providers.get(name), remote


def _provider_of(tx: Transaction, task_id: str) -> tuple[str, str | None]:
    row = tx.execute(select(tasks.c.provider, tasks.c.provider_task_id).where(tasks.c.id == task_id)).first()
    return ("", None) if row is None else (row.provider, row.provider_task_id)
