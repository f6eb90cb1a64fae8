"""Builds the catalogue once for each process: its context, job kinds, lanes, schedules and service."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from longtake.adapters.providers.bangumi import Bangumi
from longtake.adapters.providers.tmdb import KEY_SETTING, Tmdb
from longtake.capabilities.catalogue import calendar
from longtake.capabilities.catalogue.calendar import Calendar
from longtake.capabilities.catalogue.context import CatalogueContext
from longtake.capabilities.catalogue.poster_fetcher import PosterFetcher
from longtake.capabilities.catalogue.poster_urls import PosterHosts
from longtake.capabilities.catalogue.posters import PosterDownloader, poster_lane
from longtake.capabilities.catalogue.removal import PosterRemoval
from longtake.capabilities.catalogue.search import TitleSearch
from longtake.capabilities.catalogue.service import Catalogue
from longtake.capabilities.catalogue.sync import Sync
from longtake.capabilities.catalogue.year_lists import YearLists
from longtake.engine.lanes import Lane

if TYPE_CHECKING:
    from longtake.adapters.decoder.pool import DecoderPool
    from longtake.adapters.net import HttpClient
    from longtake.adapters.providers.trouble import Breaker
    from longtake.adapters.storage import Storage
    from longtake.clock import Clock
    from longtake.db import Database
    from longtake.engine.engine import Engine
    from longtake.engine.kinds import JobKind
    from longtake.engine.schedules import Schedule
    from longtake.settings import Settings


@dataclass(frozen=True, kw_only=True)
class CatalogueParts:
    """What the catalogue declares to the engine and the server, and what they give it."""

    settings: Settings
    database: Database
    key_of: Callable[[str], str]
    client: HttpClient
    storage: Storage
    decoders: DecoderPool
    clock: Clock
    breaker: Breaker
    random: random.Random

    @cached_property
    def context(self) -> CatalogueContext:
        """What all jobs of the catalogue share."""
        settings, client, clock = self.settings, self.client, self.clock
        hosts = PosterHosts(settings.bangumi_images_url, settings.tmdb_images_url)
        rate = (settings.tmdb_per_second, 1.0) if settings.tmdb_per_second else None
        lane = Lane("tmdb", max_running=settings.titles_at_once or None, rate=rate)
        agent = settings.bangumi_user_agent
        return CatalogueContext(
            database=self.database,
            storage=self.storage,
            fetcher=PosterFetcher(client, self.decoders, hosts, agent, clock),
            hosts=hosts,
            tmdb=Tmdb(client, settings.tmdb_base_url, partial(self.key_of, KEY_SETTING), lane, clock),
            bangumi=Bangumi(client, settings.bangumi_base_url, agent, calendar.LANE, clock),
            breaker=self.breaker,
            random=self.random,
        )

    @property
    def tmdb(self) -> Tmdb:
        """The client of TMDB, whose lane stands still without a key."""
        return self.context.tmdb

    def kinds(self) -> list[JobKind]:
        """Return the job kinds."""
        context = self.context
        downloader = PosterDownloader(context, self.settings.poster_check_days)
        removal = PosterRemoval(context.database, context.storage)
        single = [one.kind() for one in (downloader, YearLists(context), TitleSearch(context), removal)]
        return [*single, *Calendar(context).kinds(), *Sync(context.database, context.tmdb).kinds()]

    def lanes(self) -> list[Lane]:
        """Return the lanes."""
        return [self.context.tmdb.lane, self.context.bangumi.lane, poster_lane(self.settings.posters_at_once)]

    def schedules(self) -> list[Schedule]:
        """Return the schedules."""
        return [*Sync.schedule(self.settings.sync_minutes), *Calendar.schedule(self.settings.calendar_hours)]

    def catalogue(self, engine: Engine) -> Catalogue:
        """Return the service for routes and programs."""
        return Catalogue(self.database, engine, self.context.tmdb, self.context.hosts)
