"""The catalogue as programs and routes use it: add titles, fetch posters, sync, stop and start.

All work is done by jobs, so requests survive a restart and any number of machines share the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from longtake.adapters.providers.errors import ProviderError
from longtake.adapters.providers.tmdb import Tmdb
from longtake.capabilities.catalogue.calendar import BY_HAND
from longtake.capabilities.catalogue.capability import CatalogueContext
from longtake.capabilities.catalogue.errors import InvalidTitle
from longtake.capabilities.catalogue.new_titles import NewTitle, check_title
from longtake.capabilities.catalogue.poster_fetcher import PosterHosts
from longtake.capabilities.catalogue.posters import DownloadResult, request_downloads
from longtake.capabilities.catalogue.queries import (
    TitleFilter,
    get_title,
    is_running,
    list_titles,
    read_status,
    running_jobs,
)
from longtake.capabilities.catalogue.schemas import show_status, show_title
from longtake.capabilities.catalogue.tables import CALENDAR, KINDS
from longtake.capabilities.catalogue.titles import (
    WrittenTitle,
    choose_show,
    forget_show,
    remove_title,
    request_sync,
    write_titles,
)
from longtake.capability import Context
from longtake.db import Database, Transaction
from longtake.engine.control import pause_kind
from longtake.engine.engine import Engine
from longtake.errors import LongtakeError

#: How often a shutdown checks for running jobs.
CHECK_SECONDS = 0.1


@dataclass(frozen=True)
class Catalogue:
    """The use cases of the catalogue."""

    database: Database
    engine: Engine
    tmdb: Tmdb
    hosts: PosterHosts

    @classmethod
    def of(cls, context: Context, engine: Engine) -> Catalogue:
        """Return the one of this process."""
        jobs = context.get(CatalogueContext)
        return cls(context.database, engine, jobs.tmdb, jobs.hosts)

    # -- titles --------------------------------------------------------------------------------------------------

    async def add(self, given: Mapping[str, Any], request_id: str | None = None) -> tuple[dict[str, Any], WrittenTitle]:
        """Add a title or update an existing one; its poster and TMDB id are queued at once."""
        [written] = await self._write([check_title(given)], request_id)
        return await self.show(written.id), written

    async def add_many(
        self, given: Sequence[Mapping[str, Any]], request_id: str | None = None
    ) -> list[WrittenTitle | LongtakeError]:
        """Write titles as ``add`` does; an invalid one does not keep out the others, and its error is returned."""
        checked = [_checked(one) for one in given]
        good = [one for one in checked if isinstance(one, NewTitle)]
        written = iter(await self._write(good, request_id) if good else ())
        return [one if isinstance(one, LongtakeError) else next(written) for one in checked]

    async def show(self, title_id: str) -> dict[str, Any]:
        return show_title(await self.database.read(get_title, title_id))

    async def page(self, wanted: TitleFilter, before: str | None, limit: int) -> list[dict[str, Any]]:
        """Return a page of titles, newest first."""
        return [show_title(row) for row in await self.database.read(list_titles, wanted, before, limit)]

    async def delete(self, title_id: str) -> None:
        """Remove a title, and its poster if no other title has it."""
        await self.database.run(remove_title, self.engine, title_id)

    async def choose(self, title_id: str, tmdb_id: int | None) -> dict[str, Any]:
        """Write a person's choice of the show; None means that TMDB does not have the title."""
        if tmdb_id is not None and not await self._may_exist(tmdb_id):
            raise InvalidTitle(
                f"TMDB has no show {tmdb_id}.", hint="Take the number from the show's page on TMDB: /tv/NUMBER."
            )
        return show_title(await self.database.run(choose_show, title_id, tmdb_id))

    async def look_up_again(self, title_id: str, request_id: str | None = None) -> dict[str, Any]:
        """Forget which show a title is, and look it up again."""
        return show_title(await self.database.run(forget_show, self.engine, title_id, request_id))

    # -- work ----------------------------------------------------------------------------------------------------

    async def download(self, title_id: str, url: str) -> dict[str, Any]:
        """Give a title this poster, and fetch it now."""
        [done] = await self.download_batch([(title_id, url)])
        if done.refused is not None:
            raise done.refused
        return await self.show(title_id)

    async def download_batch(
        self, wanted: Sequence[tuple[str, str]], request_id: str | None = None
    ) -> list[DownloadResult]:
        """Give titles these posters, and fetch them now; one download for each address."""
        return await self.database.run(request_downloads, self.engine, self.hosts, wanted, request_id)

    async def trigger_sync(self, request_id: str | None = None) -> str:
        """Start a sync now, unless one is waiting to start; return its job id."""
        return await self.database.run(request_sync, self.engine, request_id)

    async def refresh_calendar(self, request_id: str | None = None) -> str:
        """Fetch Bangumi's calendar now, then sync; return the job id."""
        job = await self.database.run(
            lambda tx: self.engine.enqueue(tx, CALENDAR, {BY_HAND: True}, key=BY_HAND, request_id=request_id)
        )
        return job.id

    async def status(self) -> dict[str, Any]:
        found = await self.database.read(read_status, self.database.incarnation)
        return show_status(found, tmdb_configured=self.tmdb.configured)

    async def is_running(self) -> bool:
        """Say whether a worker is alive and the catalogue is not shut down."""
        return await self.database.read(is_running, self.database.incarnation)

    async def shutdown(self, seconds: float = 60.0) -> bool:
        """Start no more jobs on any machine, and wait for running ones; say whether all have ended.

        Waiting jobs are kept, and run after ``start``.
        """
        await self.database.run(partial(_pause_kinds, paused=True))
        try:
            async with asyncio.timeout(seconds):
                # Other machines have running jobs too: only the database knows when they end.
                while await self.database.read(running_jobs):  # noqa: ASYNC110
                    await asyncio.sleep(CHECK_SECONDS)
        except TimeoutError:
            return False
        return True

    async def start(self) -> None:
        await self.database.run(partial(_pause_kinds, paused=False))

    async def _write(self, new: Sequence[NewTitle], request_id: str | None) -> list[WrittenTitle]:
        return await self.database.run(lambda tx: write_titles(tx, self.engine, self.hosts, new, request_id=request_id))

    async def _may_exist(self, tmdb_id: int) -> bool:
        """Say whether there is such a show. While TMDB cannot be asked, the person is believed."""
        try:
            return not self.tmdb.configured or await self.tmdb.show(tmdb_id) is not None
        except ProviderError:
            return True


def _checked(given: Mapping[str, Any]) -> NewTitle | LongtakeError:
    try:
        return check_title(given)
    except LongtakeError as error:
        return error


def _pause_kinds(tx: Transaction, *, paused: bool) -> None:
    for kind in sorted(KINDS):
        pause_kind(tx, kind, paused=paused)
    if not paused:
        tx.signal("jobs")
