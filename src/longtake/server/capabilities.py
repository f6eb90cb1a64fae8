"""Everything the service does beyond running jobs, assembled once for each process."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from longtake.adapters.decoder.pool import DecoderPool
from longtake.adapters.net import HttpClient
from longtake.adapters.providers.registry import build_providers, lanes_of
from longtake.adapters.providers.trouble import Breaker
from longtake.adapters.storage import open_storage
from longtake.capabilities.generation.account_removal import AccountRemoval
from longtake.capabilities.generation.deadlines import DeadlineSweep
from longtake.capabilities.generation.estimates import Estimates
from longtake.capabilities.generation.health_alerts import HealthCheck
from longtake.capabilities.generation.jobs import JobContext
from longtake.capabilities.generation.lost_submits import LostSubmitHandler
from longtake.capabilities.generation.models import load_models
from longtake.capabilities.generation.outlook import Outlooks
from longtake.capabilities.generation.poll import PollHandler
from longtake.capabilities.generation.removal import Retention
from longtake.capabilities.generation.service import Generation
from longtake.capabilities.generation.sources import TaskResults
from longtake.capabilities.generation.submit import SubmitHandler
from longtake.capabilities.generation.tasks import TaskLimits, refund_lost
from longtake.capabilities.generation.validation import OfferedModels
from longtake.capabilities.generation.watch import Watch
from longtake.capabilities.media.imports import Imports
from longtake.capabilities.media.mirror import MIRROR_LANE, Mirror
from longtake.capabilities.media.orphans import Orphans
from longtake.capabilities.media.previews import PREVIEW_LANE, Previews
from longtake.capabilities.media.removal import ObjectRemoval
from longtake.capabilities.media.stuck_copies import StuckCopies
from longtake.capabilities.media.thumbnail_maker import CloudflareFrames, ThumbnailMaker
from longtake.capabilities.media.thumbnails import THUMBNAIL_LANE, Thumbnails
from longtake.capabilities.scenes.image_job import ImageMaker
from longtake.capabilities.scenes.models import scene_lane
from longtake.capabilities.scenes.runs import remove_runs_of
from longtake.capabilities.scenes.service import Scenes
from longtake.clock import Clock
from longtake.db import Database
from longtake.engine.engine import Engine
from longtake.engine.kinds import JobKind
from longtake.engine.lanes import Lane
from longtake.engine.schedules import Schedule
from longtake.errors import SettingsError
from longtake.server.catalogue_parts import CatalogueParts
from longtake.server.scene_models import OfferedSceneModels
from longtake.server.task_sources import TaskSources
from longtake.services.assets import AssetLinks
from longtake.services.live.feed import Feed
from longtake.services.live.streams import StreamLimits, Streams
from longtake.services.webhooks import jobs as webhook_pruning
from longtake.services.webhooks.dispatcher import Dispatcher
from longtake.services.webhooks.jobs import WEBHOOK_LANE, WebhookSender
from longtake.settings import Settings

if TYPE_CHECKING:
    from fastapi import APIRouter

    from longtake.services.vault.vault import Vault


class Capabilities:
    """Generation and assets with their dependencies. Declared with the engine; served and closed by the process."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        key_of: Callable[[str], str],
        link_secret: Callable[[], bytes],
        clock: Clock,
        source: random.Random,
        vault: Vault,
    ) -> None:
        self.settings = settings
        self.database = database
        self.clock = clock
        self._link_secret = link_secret
        self.vault = vault
        self.client = HttpClient(allowed_addresses=settings.allow_addresses.split(","))
        self.storage = open_storage(settings)
        self.decoders = DecoderPool(settings.decoders or os.cpu_count() or 1)
        self.providers = build_providers(settings, self.client, key_of, clock)
        self.models = load_models(Path(settings.models_file) if settings.models_file else None)
        unknown = sorted({model.provider for model in self.models.values()} - set(self.providers))
        if unknown:
            raise SettingsError(f"LONGTAKE_MODELS_FILE: there is no provider {unknown[0]!r}.")
        self.scene_models = OfferedSceneModels(self.models, self.providers)
        self._breaker, self._random = Breaker(), source
        self.catalogue = CatalogueParts(
            settings=settings,
            database=database,
            key_of=key_of,
            client=self.client,
            storage=self.storage,
            decoders=self.decoders,
            clock=clock,
            breaker=self._breaker,
            random=source,
        )
        self.feed = Feed(database, clock)
        self.streams = Streams(database, self.feed, clock, StreamLimits(settings.streams_per_user, settings.streams))

    def links(self, own_url: str = "") -> AssetLinks:
        """Return the maker of links; without a public address, links point to this server."""
        public = self.settings.public_url or own_url
        return AssetLinks(self.storage, self._link_secret(), public, self.clock, self._needs_key)

    def kinds(self) -> list[JobKind]:
        """Return all job kinds."""
        database, context = self.database, self._job_context()
        handlers = (
            SubmitHandler(context),
            PollHandler(context),
            LostSubmitHandler(context),
            DeadlineSweep(context),
            HealthCheck(context),
            WebhookSender(database, self.client, self.vault, self.clock),
        )
        kinds = [one.kind() for one in handlers]
        pruning = webhook_pruning.prune_kind(database, self.settings.webhook_days)
        media, removing = self._media_kinds(), self._removing_kinds()
        return [*kinds, self._image_maker().kind(), *media, *removing, *self.catalogue.kinds(), pruning]

    def _job_context(self) -> JobContext:
        return JobContext(
            database=self.database,
            providers=self.providers,
            models=self.models,
            storage=self.storage,
            links=self.links,
            public_url=self.settings.public_url,
            breaker=self._breaker,
            random=self._random,
        )

    def _image_maker(self) -> ImageMaker:
        return ImageMaker(
            self.database,
            self.providers,
            self.scene_models,
            self.storage,
            self._breaker,
            self.clock,
            self._random,
        )

    def _media_kinds(self) -> list[JobKind]:
        """Return the jobs for finished media."""
        database, sources = self.database, TaskSources(TaskResults(self.database, self.providers))
        mirror = Mirror(
            database,
            self.storage,
            self.client,
            most_bytes=self.settings.asset_bytes,
            sources=sources,
            on_lost=refund_lost,
            random_source=self._random,
        )
        maker = ThumbnailMaker(self.storage, self.client, self.decoders, sources, self._cloudflare())
        thumbnails = Thumbnails(database, self.storage, maker)
        previews = Previews(database, self.storage, self.decoders)
        stuck = StuckCopies(database)
        return [one.kind() for one in (mirror, thumbnails, previews, stuck)]

    def _cloudflare(self) -> CloudflareFrames | None:
        if self.settings.thumbnail_method != "cloudflare":
            return None
        if not self.settings.cloudflare_media_zone:
            raise SettingsError("LONGTAKE_THUMBNAIL_METHOD is cloudflare, but LONGTAKE_CLOUDFLARE_MEDIA_ZONE is empty.")
        return CloudflareFrames(self.client, self.decoders, self.settings.cloudflare_media_zone)

    def _removing_kinds(self) -> list[JobKind]:
        """Return what takes rows and files away."""
        objects = ObjectRemoval(self.database, self.storage)
        accounts = AccountRemoval(self.database, [remove_runs_of])
        return [one.kind() for one in (objects, accounts, self._orphans(), self._retention())]

    def _orphans(self) -> Orphans:
        return Orphans(self.database, self.storage, self.clock)

    def _retention(self) -> Retention:
        return Retention(self.database, self.settings.task_days)

    def lanes(self) -> list[Lane]:
        """Return all lanes."""
        media = [MIRROR_LANE, THUMBNAIL_LANE, PREVIEW_LANE]
        return [*self.provider_lanes(), *media, WEBHOOK_LANE, *self.catalogue.lanes()]

    def provider_lanes(self) -> list[Lane]:
        """Return the lanes for requests to providers."""
        pace = (self.settings.scenes_per_minute, self.settings.scenes_at_once)
        return [*lanes_of(self.providers), *(scene_lane(one, *pace) for one in self.scene_models.accounts())]

    def keyed_lanes(self) -> list[Lane]:
        """Return the lanes that stay paused without a key."""
        return [*self.provider_lanes(), self.catalogue.tmdb.lane]

    @property
    def asked(self) -> list[str]:
        """Return the names of all that are asked with a key."""
        return [*self.providers, self.catalogue.tmdb.name]

    def schedules(self) -> list[Schedule]:
        """Return all schedules."""
        context = self._job_context()
        deadlines, health = DeadlineSweep(context), HealthCheck(context)
        copies = StuckCopies(self.database)
        sweeps = [one.schedule() for one in (deadlines, copies, health, self._orphans(), self._retention())]
        return [*sweeps, webhook_pruning.prune_schedule(), *self.catalogue.schedules()]

    def dispatcher(self, engine: Engine) -> Dispatcher:
        """Return what reads the log of events for webhooks, beside a worker."""
        return Dispatcher(self.database, engine)

    def generation(self, engine: Engine, own_url: str = "") -> Generation:
        """Return what the routes of generation need."""
        settings, database = self.settings, self.database
        estimates = Estimates(database, self.clock, list(self.models))
        return Generation(
            database=database,
            engine=engine,
            offered=OfferedModels(self.models, self.providers),
            providers=self.providers,
            limits=TaskLimits(settings.unfinished_tasks, settings.queue_seconds),
            watch=Watch(database, self.clock, self.feed),
            estimates=estimates,
            outlooks=Outlooks(database, self.clock, estimates),
            links=self.links(own_url),
            reachable=bool(settings.public_url),
            storage_signs=self.storage.signs,
        )

    def routers(self, generation: Generation) -> list[APIRouter]:
        """Return the routes of all capabilities."""
        # A worker has no routes, and starts without the web framework.
        from longtake.server.routers import build_routers  # noqa: PLC0415

        return build_routers(self, generation)

    def scenes(self, generation: Generation) -> Scenes:
        """Return what the routes of scenes need."""
        most = self.settings.unfinished_tasks
        return Scenes(self.database, generation.engine, self.scene_models, generation.links, most)

    def imports(self) -> Imports:
        """Return what the routes of imports need."""
        return Imports(self.database, self.client, self.settings.unfinished_imports)

    async def close(self) -> None:
        """Let go of connections."""
        await self.decoders.close()
        await self.client.close()
        await self.storage.close()

    def _needs_key(self, url: str) -> bool:
        return any(provider.download_headers(url) for provider in self.providers.values())
