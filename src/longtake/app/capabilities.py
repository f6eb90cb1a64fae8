"""What the service can do beyond running jobs, put together once for each process."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from longtake.asset_registry import Asset, AssetLinks
from longtake.assets import routes as asset_routes
from longtake.assets.jobs import MIRROR_LANE, Mirror
from longtake.assets.references import References
from longtake.assets.sources import FreshSource
from longtake.clock import Clock
from longtake.conversations import routes as conversation_routes
from longtake.credits import routes as credit_routes
from longtake.db import Database
from longtake.engine.engine import Engine
from longtake.engine.kinds import JobKind
from longtake.engine.lanes import Lane
from longtake.engine.schedules import Schedule
from longtake.errors import SettingsError
from longtake.generation import routes as generation_routes
from longtake.generation.attaching import Attaching
from longtake.generation.creation import Limits
from longtake.generation.estimates import Estimates
from longtake.generation.losses import refund_lost
from longtake.generation.models import load_models
from longtake.generation.polling import Polling
from longtake.generation.references import ReferenceLoader
from longtake.generation.requests import Offer
from longtake.generation.service import Generation
from longtake.generation.sources import Sources
from longtake.generation.submitting import Submitting
from longtake.generation.sweeping import Sweeping
from longtake.generation.trouble import Breaker
from longtake.generation.views import Task
from longtake.generation.watching import Watch
from longtake.net import HttpClient
from longtake.providers.registry import build_providers, lanes_of
from longtake.settings import Settings
from longtake.storage import open_storage

if TYPE_CHECKING:
    from fastapi import APIRouter


class Capabilities:
    """Generation and assets with what they stand on. Declared with the engine; served and closed by the process."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        engine: Callable[[], Engine],
        key_of: Callable[[str], str],
        link_secret: Callable[[], bytes],
        clock: Clock,
        source: random.Random,
    ) -> None:
        self._settings = settings
        self._database = database
        self._engine = engine
        self._clock = clock
        self._link_secret = link_secret
        self.client = HttpClient(allowed_addresses=settings.allow_addresses.split(","))
        self.storage = open_storage(settings)
        self.providers = build_providers(settings, self.client, key_of, clock)
        self.models = load_models(Path(settings.models_file) if settings.models_file else None)
        unknown = sorted({model.provider for model in self.models.values()} - set(self.providers))
        if unknown:
            raise SettingsError(f"LONGTAKE_MODELS_FILE: there is no provider {unknown[0]!r}.")
        self._breaker, self._random = Breaker(), source

    def links(self, own_url: str = "") -> AssetLinks:
        """Return the maker of links; without a public address they lead to this very server."""
        public = self._settings.public_url or own_url
        return AssetLinks(self.storage, self._link_secret(), public, self._clock, self._needs_key)

    def kinds(self) -> list[JobKind]:
        """Return all job kinds."""
        database, engine = self._database, self._engine
        submitting = Submitting(
            database,
            engine,
            self.providers,
            self.models,
            self.storage,
            ReferenceLoader(database, self.storage, self.links),
            self._callback_url,
            self._breaker,
            self._random,
        )
        attaching = Attaching(database, engine, self.providers, self.models, self._breaker, self._random)
        mirror = Mirror(
            database,
            self.storage,
            self.client,
            most_bytes=self._settings.asset_bytes,
            sources=_TaskSources(Sources(database, self.providers)),
            on_lost=refund_lost,
            random_source=self._random,
        )
        polling = Polling(engine, self.providers, self._breaker, self._random)
        sweeping = Sweeping(database, engine, self.providers)
        return [one.kind() for one in (submitting, polling, attaching, sweeping, mirror)]

    def lanes(self) -> list[Lane]:
        """Return all lanes."""
        return [*lanes_of(self.providers), MIRROR_LANE]

    def schedules(self) -> list[Schedule]:
        """Return all schedules."""
        return [Sweeping(self._database, self._engine, self.providers).schedule()]

    def generation(self, own_url: str = "") -> Generation:
        """Return what the routes of generation need."""
        settings, database, engine = self._settings, self._database, self._engine()
        return Generation(
            database=database,
            engine=engine,
            offer=Offer(self.models, self.providers),
            providers=self.providers,
            limits=Limits(settings.unfinished_tasks, settings.queue_seconds),
            watch=Watch(database, engine, self._clock),
            estimates=Estimates(database, self._clock, list(self.models)),
            links=self.links(own_url),
            reachable=bool(settings.public_url),
            storage_signs=self.storage.signs,
        )

    def routers(self, generation: Generation) -> list[APIRouter]:
        """Return the routes of all capabilities."""
        references = References(self._database, generation.engine, self.storage)
        most_bytes = self._settings.reference_bytes
        return [
            generation_routes.build_routes(generation),
            conversation_routes.build_routes(self._database),
            credit_routes.build_routes(self._database),
            asset_routes.build_routes(
                self._database, self.storage, generation.links, references, reference_bytes=most_bytes
            ),
        ]

    async def close(self) -> None:
        """Let go of connections."""
        await self.client.close()
        await self.storage.close()

    def _needs_key(self, url: str) -> bool:
        return any(provider.download_headers(url) for provider in self.providers.values())

    def _callback_url(self, task: Task) -> str | None:
        """Return where the provider may tell of the task; None when nobody outside can reach us."""
        base = self._settings.public_url.rstrip("/")
        return f"{base}/v1/callbacks/{task.provider}?reference={task.reference}" if base else None


class _TaskSources:
    """What mirroring asks, answered by generation: the two capabilities do not know each other."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    async def download_headers(self, asset: Asset) -> Mapping[str, str]:
        return await self._sources.headers(asset)

    async def fresh(self, asset: Asset) -> FreshSource | None:
        renewed = await self._sources.renew(asset)
        return None if renewed is None else FreshSource(renewed.url, renewed.headers, renewed.expires_in)
