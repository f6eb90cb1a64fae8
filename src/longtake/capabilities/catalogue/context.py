"""What the jobs of the catalogue share."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from longtake.adapters.providers.bangumi import Bangumi
from longtake.adapters.providers.tmdb import KEY_SETTING, Tmdb
from longtake.capabilities.catalogue.poster_fetcher import PosterFetcher, PosterHosts
from longtake.engine.lanes import Lane
from longtake.services.provider_calls import Breaker

if TYPE_CHECKING:
    from longtake.adapters.storage import Storage
    from longtake.capability import Context
    from longtake.db import Database

#: Bangumi documents no limit; this is far below what a browser does.
BANGUMI_LANE = Lane("bangumi", max_running=2, rate=(4, 1.0))
#: How long one call to TMDB or Bangumi may take, the wait for a connection included.
CALL_SECONDS = 25.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueContext:
    """The collaborators of the catalogue's jobs, built once for each process."""

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
