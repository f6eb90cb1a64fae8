"""The catalogue, put together once for each process."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from longtake.adapters.providers.bangumi import Bangumi
from longtake.adapters.providers.tmdb import KEY_SETTING, Tmdb
from longtake.capabilities.catalogue import calendar
from longtake.capabilities.catalogue.calendar import Calendar
from longtake.capabilities.catalogue.poster_fetcher import PosterFetcher
from longtake.capabilities.catalogue.poster_urls import PosterHosts
from longtake.capabilities.catalogue.posters import Posters, poster_lane
from longtake.capabilities.catalogue.removal import Removing
from longtake.capabilities.catalogue.search import Searching
from longtake.capabilities.catalogue.service import Catalogue
from longtake.capabilities.catalogue.source_calls import Asking
from longtake.capabilities.catalogue.sync import Syncing
from longtake.capabilities.catalogue.years import Years
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


class CatalogueParts:
    """What the catalogue is made of, and what it declares."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        engine: Callable[[], Engine],
        key_of: Callable[[str], str],
        client: HttpClient,
        storage: Storage,
        decoders: DecoderPool,
        clock: Clock,
        breaker: Breaker,
        source: random.Random,
    ) -> None:
        self._settings = settings
        self._database = database
        self._engine = engine
        self._storage = storage
        self._breaker = breaker
        self._random = source
        self._clock = clock
        self._hosts = PosterHosts(settings.bangumi_images_url, settings.tmdb_images_url)
        rate = (settings.tmdb_per_second, 1.0) if settings.tmdb_per_second else None
        lane = Lane("tmdb", max_running=settings.titles_at_once or None, rate=rate)
        self.tmdb = Tmdb(client, settings.tmdb_base_url, partial(key_of, KEY_SETTING), lane, clock)
        self._user_agent = settings.bangumi_user_agent
        self.bangumi = Bangumi(client, settings.bangumi_base_url, self._user_agent, calendar.LANE, clock)
        self._fetcher = PosterFetcher(client, decoders, self._hosts, self._user_agent, clock)

    def kinds(self) -> list[JobKind]:
        """Return the job kinds."""
        database, engine, tmdb = self._database, self._engine, self.tmdb
        days = self._settings.poster_check_days
        posters = Posters(database, self._storage, self._fetcher, self._hosts, days, self._random)
        asking = Asking(tmdb.name, self._breaker, self._random, self._clock)
        years, searching = Years(database, tmdb, asking), Searching(database, tmdb, asking)
        asking_bangumi = Asking(self.bangumi.name, self._breaker, self._random, self._clock)
        bangumi = Calendar(database, engine, self.bangumi, self._hosts, asking_bangumi)
        single = [one.kind() for one in (posters, years, searching, Removing(database, self._storage))]
        return [*single, *bangumi.kinds(), *Syncing(database, tmdb).kinds()]

    def lanes(self) -> list[Lane]:
        """Return the lanes."""
        return [self.tmdb.lane, self.bangumi.lane, poster_lane(self._settings.posters_at_once)]

    def schedules(self) -> list[Schedule]:
        """Return what happens by itself."""
        return [*Syncing.schedule(self._settings.sync_minutes), *Calendar.schedule(self._settings.calendar_hours)]

    def catalogue(self) -> Catalogue:
        """Return the catalogue as programs and routes use it."""
        return Catalogue(self._database, self._engine(), self.tmdb, self._hosts)
