"""Generation as the owner of its tasks' assets: where results come from, and what references are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Row, select

from longtake.adapters.providers.errors import ProviderUnavailable
from longtake.adapters.providers.provider import Provider, Succeeded
from longtake.capabilities.generation.jobs import QUERY_SECONDS, JobContext, query_task
from longtake.capabilities.generation.tables import IS_UNFINISHED, tasks
from longtake.capability import AssetOwner, FreshSource, OwnedAsset
from longtake.db import Transaction
from longtake.engine.events import append_event
from longtake.engine.jobs import Job
from longtake.engine.outcomes import Fail, Snooze
from longtake.errors import StateConflict
from longtake.services.assets import assets
from longtake.services.credits import refund
from longtake.services.provider_calls import ask_provider

#: States of a result's copy that are final without a copy.
LOST = ("failed", "expired")


class TaskAssets(AssetOwner):
    """Asks the provider of a result's task; gives the price back when a result is lost."""

    def __init__(self, context: JobContext) -> None:
        self._context = context

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
        answer = await ask_provider(job, provider, query, QUERY_SECONDS, breaker=self._context.breaker, lane=lane)
        if isinstance(answer, Snooze | Fail):
            raise ProviderUnavailable(answer.message or f"{provider.name} cannot be asked.", provider=provider.name)
        if not isinstance(answer, Succeeded) or asset.position >= len(answer.files):
            return None
        url = answer.files[asset.position].url
        return FreshSource(url, provider.download_headers(url), answer.expires_in)

    def lost(self, tx: Transaction, lost: Sequence[OwnedAsset]) -> None:
        """Give the price of tasks back, once, when the last of their results is lost; they stay completed."""
        of_tasks = {asset.task_id for asset in lost if asset.task_id is not None and asset.role == "result"}
        paid = select(tasks).where(tasks.c.id.in_(sorted(of_tasks)), tasks.c.price > 0).order_by(tasks.c.id)
        # Balances are locked in order of user.
        for task in sorted(tx.execute(paid.with_for_update()), key=lambda row: row.user_id):
            left = (assets.c.task_id == task.id, assets.c.role == "result", assets.c.mirror_state.not_in(LOST))
            if tx.execute(select(assets.c.id).where(*left).limit(1)).first() is not None:
                continue
            try:
                refund(tx, task_id=task.id, made_by="longtake", reason="The result could not be copied.")
            except StateConflict:
                # Refunded already, by an operator or after an earlier loss.
                continue
            data = {"status": task.status, "credits": "refunded"}
            append_event(tx, "task.refunded", subject=task.id, user_id=task.user_id, data=data)

    def require_unused(self, tx: Transaction, user_id: str, asset_id: str) -> None:
        """Raise StateConflict while an unfinished task may still need this reference."""
        columns = (tasks.c.id, tasks.c["references"])
        for row in tx.execute(select(*columns).where(tasks.c.user_id == user_id, IS_UNFINISHED)):
            if asset_id in row.references:
                message = f"The unfinished task {row.id} uses the reference {asset_id}."
                raise StateConflict(message, hint="Wait until the task has ended, or cancel it.")

    async def _provider(self, asset: OwnedAsset) -> tuple[Provider | None, str | None]:
        """Return the provider of the asset's task, and the task's id there."""
        row = None if asset.task_id is None else await self._context.database.read(_provider_of, asset.task_id)
        return (None, None) if row is None else (self._context.providers.get(row.provider), row.provider_task_id)


def _provider_of(tx: Transaction, task_id: str) -> Row[Any] | None:
    return tx.execute(select(tasks.c.provider, tasks.c.provider_task_id).where(tasks.c.id == task_id)).first()
