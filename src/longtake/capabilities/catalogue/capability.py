"""The catalogue: titles with their posters and ids, kept up to date by jobs."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from longtake.adapters.providers.bangumi import Bangumi
from longtake.adapters.providers.tmdb import KEY_SETTING, Tmdb
from longtake.capabilities.catalogue.calendar import Calendar
from longtake.capabilities.catalogue.poster_fetcher import PosterFetcher, PosterHosts
from longtake.capabilities.catalogue.posters import LANE, PosterDownloader, PosterRemoval
from longtake.capabilities.catalogue.search import TitleSearch
from longtake.capabilities.catalogue.sync import Sync, YearLists
from longtake.capabilities.catalogue.tables import CALENDAR, SYNC
from longtake.capability import Capability, Context
from longtake.engine.lanes import Lane
from longtake.engine.schedules import Schedule
from longtake.services.provider_calls import Breaker, ask_provider

if TYPE_CHECKING:
    from longtake.adapters.storage import Storage
    from longtake.db import Database
    from longtake.engine.jobs import Job
    from longtake.engine.outcomes import Outcome

T = TypeVar("T")

#: Bangumi documents no limit; this is far below what a browser does.
BANGUMI_LANE = Lane("bangumi", max_running=2, rate=(4, 1.0))
#: How long one call to TMDB or Bangumi may take, the wait for a connection included.
CALL_SECONDS = 25.0


def capability(context: Context) -> Capability:
    """Return what the catalogue registers."""
    settings, jobs = context.settings, CatalogueContext.of(context)
    handlers = (
        PosterDownloader(jobs, settings.poster_check_days),
        YearLists(jobs),
        TitleSearch(jobs),
        PosterRemoval(jobs),
    )
    every = {SYNC: settings.sync_minutes * 60.0, CALENDAR: settings.calendar_hours * 3600.0}
    return Capability(
        kinds=[
            *(one.kind() for one in handlers),
            *Calendar(jobs).kinds(),
            *Sync(jobs.database, jobs.tmdb).kinds(),
        ],
        lanes=[jobs.tmdb.lane, jobs.bangumi.lane, Lane(LANE, max_running=settings.posters_at_once or None)],
        keyed_lanes={jobs.tmdb.name: [jobs.tmdb.lane]},
        schedules=[Schedule(kind, kind, every=seconds) for kind, seconds in every.items() if seconds],
        routers="longtake.capabilities.catalogue.routes:routers",
        offers=[jobs],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueContext:
    """What the jobs of the catalogue share, built once for each process."""

    database: Database
    storage: Storage
    fetcher: PosterFetcher
    hosts: PosterHosts
    tmdb: Tmdb
    bangumi: Bangumi
    breaker: Breaker
    random: random.Random

    @classmethod
    def of(cls, context: Context) -> CatalogueContext:
        """Return the one of this process."""
        settings, http, clock = context.settings, context.http, context.clock
        hosts = PosterHosts(settings.bangumi_images_url, settings.tmdb_images_url)
        rate = (settings.tmdb_per_second, 1.0) if settings.tmdb_per_second else None
        lane = Lane("tmdb", max_running=settings.titles_at_once or None, rate=rate)
        agent = settings.bangumi_user_agent
        return cls(
            database=context.database,
            storage=context.storage,
            fetcher=PosterFetcher(http, context.decoders, hosts, agent, clock),
            hosts=hosts,
            tmdb=Tmdb(http, settings.tmdb_base_url, partial(context.key_of, KEY_SETTING), lane, clock),
            bangumi=Bangumi(http, settings.bangumi_base_url, agent, BANGUMI_LANE, clock),
            breaker=context.get(Breaker),
            random=context.random,
        )

    async def ask(self, job: Job, provider: Tmdb | Bangumi, call: Callable[[], Awaitable[T]]) -> T | Outcome:
        """Return the provider's answer, or how the job goes on without one."""
        return await ask_provider(job, provider, call, CALL_SECONDS, breaker=self.breaker)
