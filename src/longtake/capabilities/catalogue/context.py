"""What the jobs of the catalogue share, and the one way in which they call TMDB or Bangumi."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

from longtake.adapters.providers.trouble import Breaker, wait_out
from longtake.engine.outcomes import Fail, Outcome
from longtake.errors import ProviderError, ProviderRefused

if TYPE_CHECKING:
    from longtake.adapters.providers.bangumi import Bangumi
    from longtake.adapters.providers.tmdb import Tmdb
    from longtake.adapters.storage import Storage
    from longtake.capabilities.catalogue.poster_fetcher import PosterFetcher
    from longtake.capabilities.catalogue.poster_urls import PosterHosts
    from longtake.db import Database
    from longtake.engine.jobs import Job

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
