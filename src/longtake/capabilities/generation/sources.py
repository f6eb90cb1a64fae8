"""Where a result can be downloaded again: its task's provider is queried once more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import select

from longtake.adapters.providers.provider import Provider, Succeeded
from longtake.capabilities.generation.tables import tasks
from longtake.db import Database, Transaction
from longtake.errors import ProviderTaskNotFound
from longtake.services.assets import Asset


@dataclass(frozen=True, slots=True)
class RenewedSource:
    """A new address of a result, the headers to fetch it with, and how long it lives."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    expires_in: float | None = None


class TaskResults:
    """Asks providers for the results of their tasks."""

    def __init__(self, database: Database, providers: Mapping[str, Provider]) -> None:
        self._database = database
        self._providers = providers

    async def headers(self, asset: Asset) -> Mapping[str, str]:
        """Return the headers that its address needs: a provider's key, only for that provider's own address."""
        provider, _remote = await self._provider(asset)
        return {} if provider is None or asset.source_url is None else provider.download_headers(asset.source_url)

    async def renew(self, asset: Asset) -> RenewedSource | None:
        """Query the provider for the result once more; return None when it no longer has it."""
        provider, remote = await self._provider(asset)
        if provider is None or remote is None:
            return None
        try:
            answer = await provider.query(remote)
        except ProviderTaskNotFound:
            return None
        if not isinstance(answer, Succeeded) or asset.position >= len(answer.files):
            return None
        url = answer.files[asset.position].url
        return RenewedSource(url, provider.download_headers(url), answer.expires_in)

    async def _provider(self, asset: Asset) -> tuple[Provider | None, str | None]:
        if asset.task_id is None:
            return None, None
        name, remote = await self._database.read(_provider_of, asset.task_id)
        return self._providers.get(name), remote


def _provider_of(tx: Transaction, task_id: str) -> tuple[str, str | None]:
    row = tx.execute(select(tasks.c.provider, tasks.c.provider_task_id).where(tasks.c.id == task_id)).first()
    return ("", None) if row is None else (row.provider, row.provider_task_id)
