"""The catalogue as programs and routes use it: bring in titles, have posters fetched, sync, stop in order.

Everything is an engine's job: what was asked for survives a restart, and any number of machines share the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longtake.adapters.providers.tmdb import Tmdb
from longtake.capabilities.catalogue.calendar import BY_HAND
from longtake.capabilities.catalogue.manual_match import choose_nothing, choose_show
from longtake.capabilities.catalogue.new_titles import NewTitle, check_title
from longtake.capabilities.catalogue.poster_downloads import Download, download_posters
from longtake.capabilities.catalogue.poster_urls import PosterHosts
from longtake.capabilities.catalogue.queries import (
    Filter,
    get_title,
    is_running,
    list_titles,
    read_status,
    running_jobs,
)
from longtake.capabilities.catalogue.removal import remove_title
from longtake.capabilities.catalogue.tables import CALENDAR, KINDS
from longtake.capabilities.catalogue.titles import Written, request_sync, write_titles
from longtake.capabilities.catalogue.views import show_status, show_title
from longtake.db import Database, Transaction
from longtake.engine.control import pause_kind
from longtake.engine.engine import Engine
from longtake.errors import InvalidTitle, LongtakeError, ProviderError

#: How often it is looked whether all has come to rest.
LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Brought:
    """What became of one of several titles: written, or refused."""

    written: Written | None = None
    refused: LongtakeError | None = None


@dataclass(frozen=True)
class Catalogue:
    """Everything the routes need."""

    database: Database
    engine: Engine
    tmdb: Tmdb
    hosts: PosterHosts

    # -- titles --------------------------------------------------------------------------------------------------

    async def add(self, given: Mapping[str, Any], request_id: str | None = None) -> tuple[dict[str, Any], Written]:
        """Write a title, or what is new about one that is there; its poster and id are seen to at once."""
        [written] = await self._write([check_title(given)], request_id)
        return await self.show(written.id), written

    async def add_many(self, given: Sequence[Mapping[str, Any]], request_id: str | None = None) -> list[Brought]:
        """Write titles as ``add`` does; one that is wrong keeps no other out."""
        checked = [_checked(one) for one in given]
        good = [one for one in checked if isinstance(one, NewTitle)]
        written = iter(await self._write(good, request_id) if good else ())
        return [Brought(refused=one) if isinstance(one, LongtakeError) else Brought(next(written)) for one in checked]

    async def show(self, title_id: str) -> dict[str, Any]:
        """Return one title."""
        return show_title(await self.database.read(get_title, title_id))

    async def page(self, wanted: Filter, before: str | None, limit: int) -> list[dict[str, Any]]:
        """Return a page of titles, the newest first."""
        return [show_title(row) for row in await self.database.read(list_titles, wanted, before, limit)]

    async def delete(self, title_id: str) -> None:
        """Remove a title, and its poster if no other title has it."""
        await self.database.run(remove_title, self.engine, title_id)

    async def choose(self, title_id: str, tmdb_id: int | None) -> dict[str, Any]:
        """Write which show a title is, as a person knows it; None: TMDB does not have it."""
        if tmdb_id is not None and not await self._may_exist(tmdb_id):
            raise InvalidTitle(
                f"TMDB has no show {tmdb_id}.", hint="Look at the address of its page there: /tv/NUMBER."
            )
        return show_title(await self.database.run(choose_show, title_id, tmdb_id))

    async def look_up_again(self, title_id: str, request_id: str | None = None) -> dict[str, Any]:
        """Forget which show a title is, and look for it."""
        return show_title(await self.database.run(choose_nothing, self.engine, title_id, request_id))

    # -- work ----------------------------------------------------------------------------------------------------

    async def download(self, title_id: str, url: str) -> dict[str, Any]:
        """Give a title this poster, and have it fetched now."""
        [done] = await self.download_batch([(title_id, url)])
        if done.refused is not None:
            raise done.refused
        return await self.show(title_id)

    async def download_batch(self, wanted: Sequence[tuple[str, str]], request_id: str | None = None) -> list[Download]:
        """Give titles these posters, and have them fetched now; of one address there is one download."""
        return await self.database.run(download_posters, self.engine, self.hosts, wanted, request_id)

    async def trigger_sync(self, request_id: str | None = None) -> str:
        """Have a sync begin now; return its job. One that is waiting to begin is as good."""
        return await self.database.run(request_sync, self.engine, request_id)

    async def refresh_calendar(self, request_id: str | None = None) -> str:
        """Have Bangumi's calendar fetched now, and a sync after it; return its job."""
        return await self.database.run(_refresh, self.engine, request_id)

    async def status(self) -> dict[str, Any]:
        """Return how the catalogue stands."""
        return show_status(await self.database.read(read_status), tmdb_configured=self.tmdb.configured)

    async def is_running(self) -> bool:
        """Say whether anybody works on the catalogue."""
        return await self.database.read(is_running)

    async def shutdown(self, seconds: float = 60.0) -> bool:
        """Begin nothing more, on any machine, and wait for what is under way; say whether all has come to rest.

        What waits is kept, and goes on after ``start``.
        """
        await self.database.run(_stop)
        try:
            async with asyncio.timeout(seconds):
                # Other machines end their jobs: only the database can say when.
                while await self.database.read(running_jobs):  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            return False
        return True

    async def start(self) -> None:
        """Go on after a shutdown."""
        await self.database.run(_go_on)

    # -- the rest ------------------------------------------------------------------------------------------------

    async def _write(self, new: Sequence[NewTitle], request_id: str | None) -> list[Written]:
        return await self.database.run(_write, self.engine, self.hosts, new, request_id)

    async def _may_exist(self, tmdb_id: int) -> bool:
        """Say whether there is such a show; if TMDB cannot be asked, the person's word is taken."""
        try:
            return not self.tmdb.configured or await self.tmdb.show(tmdb_id) is not None
        except ProviderError:
            return True


def _checked(given: Mapping[str, Any]) -> NewTitle | LongtakeError:
    try:
        return check_title(given)
    except LongtakeError as error:
        return error


def _write(
    tx: Transaction, engine: Engine, hosts: PosterHosts, new: Sequence[NewTitle], request_id: str | None
) -> list[Written]:
    return write_titles(tx, engine, hosts, new, request_id=request_id)


def _refresh(tx: Transaction, engine: Engine, request_id: str | None) -> str:
    return engine.enqueue(tx, CALENDAR, {BY_HAND: True}, key=BY_HAND, request_id=request_id).id


def _stop(tx: Transaction) -> None:
    for kind in KINDS:
        pause_kind(tx, kind, paused=True)


def _go_on(tx: Transaction) -> None:
    for kind in KINDS:
        pause_kind(tx, kind, paused=False)
    tx.signal("jobs")
