"""What the jobs of the catalogue share, and the one way in which they call TMDB or Bangumi."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

from longtake.adapters.providers.bangumi import Bangumi
from longtake.adapters.providers.tmdb import KEY_SETTING, Tmdb
from longtake.adapters.providers.trouble import Breaker, wait_out
from longtake.capabilities.catalogue.poster_fetcher import PosterFetcher
from longtake.capabilities.catalogue.poster_urls import PosterHosts
from longtake.engine.lanes import Lane
from longtake.engine.outcomes import Fail, Outcome
from longtake.errors import ProviderError, ProviderRefused

if TYPE_CHECKING:
    from longtake.adapters.storage import Storage
    from longtake.capability import Context
    from longtake.db import Database
    from longtake.engine.jobs import Job

#: Bangumi documents no limit; this is far below what a browser does.
BANGUMI_LANE = Lane("bangumi", max_running=2, rate=(4, 1.0))

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


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
            breaker=context.breaker,
            random=context.random,
        )

    async def ask(
        self, source: Tmdb | Bangumi, job: Job, request: Callable[[*Ts], Awaitable[T]], *arguments: *Ts
    ) -> T | Outcome:
        """Return the answer, or how the job goes on without one.

        A refusal fails the job; every other error is waited out.
        """
        await job.permit()
        try:
            found = await request(*arguments)
        except ProviderRefused as error:
            self.breaker.answered(source.name)
            return Fail(error.code, error.message)
        except ProviderError as error:
            return wait_out(error, job, source.name, self.breaker, self.random)
        self.breaker.answered(source.name)
        return found
