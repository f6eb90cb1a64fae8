"""A studio for the catalogue: titles, posters and ids, against a real database, a real store and a real sandbox.

Time stands still, and jobs run when a test says so.
"""

from __future__ import annotations

import io
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PIL import Image
from sqlalchemy import Float, literal, select, text, update

from longtake.capabilities.catalogue.poster_fetcher import poster_hash
from longtake.capabilities.catalogue.service import Catalogue
from longtake.capabilities.catalogue.tables import KINDS, posters
from longtake.capabilities.catalogue.titles import WrittenTitle
from longtake.db.dialects import later, seconds_until
from longtake.engine.control import pause_kind
from longtake.engine.lane_store import lane_view
from longtake.engine.tables import jobs
from tests.engine.stage import finish
from tests.generation.studio import Studio
from tests.s3_server import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from tests.storages import keys_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from longtake import Database, Job, Outcome, Transaction
    from longtake.engine.lane_store import LaneView
    from tests.databases import StoppedClock
    from tests.s3_server import S3Server
    from tests.sandbox_process import SandboxProcess

HOUR, DAY = 3_600.0, 86_400.0
WEEK = 7 * DAY
#: A day on which each kind of title is in the sandbox at least once.
FEW = 40
#: Walks look after half a second whether lists have come.
ROUND_SECONDS = 1.0


@dataclass(frozen=True)
class Place:
    """Where posters are kept."""

    settings: Mapping[str, Any]


def folder_place(folder: Path) -> Place:
    return Place({"storage_url": f"file:{folder}/objects"})


def s3_place(server: S3Server, folder: str) -> Place:
    keys = {"s3_access_key_id": ACCESS_KEY_ID, "s3_secret_access_key": SECRET_ACCESS_KEY}
    return Place({"storage_url": server.url(folder), **keys})


def sandbox_settings(sandbox: SandboxProcess) -> dict[str, Any]:
    """Return what makes the sandbox the world of the catalogue. Nothing happens by itself."""
    return {
        "tmdb_api_key": sandbox.key,
        "tmdb_base_url": sandbox.tmdb_url,
        "tmdb_images_url": f"{sandbox.url}/tmdb-images",
        "bangumi_base_url": sandbox.bangumi_url,
        "bangumi_images_url": sandbox.bangumi_images_url,
        "sync_minutes": 0,
        "calendar_hours": 0,
    }


class CatalogueStudio(Studio):
    """Brings titles in, runs the catalogue's jobs by hand, and looks at what came of it."""

    def __init__(
        self, database: Database, clock: StoppedClock, sandbox: SandboxProcess, folder: Path, **settings: Any
    ) -> None:
        super().__init__(database, clock, sandbox, folder, **(sandbox_settings(sandbox) | settings))
        self.catalogue = Catalogue.of(self.context, self.engine)
        self.storage = self.context.storage

    # -- titles --------------------------------------------------------------------------------------------------

    async def bring(self, **given: Any) -> str:
        """Bring in one title; return its id."""
        _title, written = await self.catalogue.add(given)
        return written.id

    async def bring_all(self, titles: list[dict[str, Any]]) -> list[str]:
        """Bring in titles as the sandbox tells of them; return their ids."""
        brought = await self.catalogue.add_many([given(one) for one in titles])
        return [one.id for one in brought if isinstance(one, WrittenTitle)]

    async def show(self, title_id: str) -> dict[str, Any]:
        return await self.catalogue.show(title_id)

    def truth(self, kind: str, place: int = 0) -> dict[str, Any]:
        """Return a title of the sandbox of this kind."""
        return [one for one in self.sandbox.titles() if one["kind"] == kind][place]

    async def row(self, title_id: str) -> dict[str, Any]:
        """Return all columns of a title."""
        return await self._row("SELECT * FROM titles WHERE id = :it", title_id)

    async def poster(self, url: str) -> dict[str, Any]:
        """Return all columns of a poster, by its normalised address."""
        return await self._row("SELECT * FROM posters WHERE hash = :it", poster_hash(url))

    async def _row(self, statement: str, it: str) -> dict[str, Any]:
        def read(tx: Transaction) -> dict[str, Any]:
            return dict(tx.execute(text(statement), {"it": it}).one()._mapping)

        return await self.database.read(read)

    async def change(self, statement: str, **values: Any) -> None:
        """Change rows behind the catalogue's back."""

        def write(tx: Transaction) -> None:
            tx.execute(text(statement), values)

        await self.database.run(write)

    # -- work ----------------------------------------------------------------------------------------------------

    async def work(self, rounds: int = 60) -> list[str]:
        """Run all that is due, second by second, until nothing of the catalogue is left to do; return what ran."""
        ran: list[str] = []
        for _ in range(rounds):
            ran += [kind for kind in await self.step() if kind in KINDS]
            if not [one for one in await self.jobs() if one in KINDS]:
                return ran
            self.clock.advance(ROUND_SECONDS)
        raise AssertionError(f"still to do after {rounds} rounds: {await self.jobs()}")

    async def sync(self, rounds: int = 60) -> list[str]:
        """Sync, and do all that it finds."""
        await self.catalogue.trigger_sync()
        return await self.work(rounds)

    async def sync_and_leave(self) -> list[str]:
        """Sync, and leave waiting what waits for more than a second."""
        await self.catalogue.trigger_sync()
        return await self.until_rest()

    async def until_rest(self, rounds: int = 60) -> list[str]:
        """As ``work``, but what waits for more than a second is left waiting."""
        ran: list[str] = []
        for _ in range(rounds):
            now = [kind for kind in await self.step() if kind in KINDS]
            ran += now
            if not now and not await self._due_soon():
                return ran
            self.clock.advance(ROUND_SECONDS if not now else 0.0)
        raise AssertionError(f"still busy after {rounds} rounds: {await self.jobs()}")

    async def until_rest_of_posters(self, rounds: int = 12) -> None:
        """Run what is due for some seconds: a walk that waits for lists never rests by itself."""
        for _ in range(rounds):
            await self.step()
            self.clock.advance(0.25)

    async def apply(self, job: Job, outcome: Outcome) -> bool:
        """Apply the outcome of a claimed job; say whether it was still ours."""
        return await self.database.run(finish, self.engine, job, outcome, self.worker)

    async def _due_soon(self) -> bool:
        def read(tx: Transaction) -> bool:
            waits = [job for job in _waiting(tx) if 0 < job[1] <= ROUND_SECONDS]
            return bool(waits)

        return await self.database.read(read)

    async def wait_of(self, kind: str) -> list[float]:
        """Return in how many seconds the jobs of a kind are due."""

        def read(tx: Transaction) -> list[float]:
            return sorted(seconds for one, seconds in _waiting(tx) if one == kind)

        return await self.database.read(read)

    async def rests(self) -> list[tuple[float]]:
        """Return in how many seconds each poster is due, those that wait longest last."""

        def read(tx: Transaction) -> list[tuple[float]]:
            return [(float(row[0]),) for row in tx.execute(select(seconds_until(posters.c.due_at)))]

        return sorted(await self.database.read(read))

    async def hurry_poster(self, url: str) -> None:
        """Make a poster due since a day ago."""

        def write(tx: Transaction) -> None:
            due = later(literal(-DAY, Float))
            tx.execute(update(posters).where(posters.c.hash == poster_hash(url)).values(due_at=due))

        await self.database.run(write)

    async def run_only(self, *kinds: str) -> list[str]:
        """Run what is due of these kinds once, and leave all others of the catalogue waiting."""
        async with self._only(kinds):
            return await self.step()

    async def claim_kind(self, kind: str) -> list[Job]:
        """Claim what is due of this kind without running it."""
        async with self._only([kind]):
            return [job for job in await self.claim() if job.kind == kind]

    @asynccontextmanager
    async def _only(self, kinds: Sequence[str]) -> AsyncIterator[None]:
        def pause(tx: Transaction, paused: bool) -> None:
            for kind in sorted(set(KINDS) - set(kinds)):
                pause_kind(tx, kind, paused=paused)

        await self.database.run(pause, True)
        yield
        await self.database.run(pause, False)

    async def lane(self, name: str) -> LaneView:
        return await self.database.read(lane_view, name)

    # -- what came of it -----------------------------------------------------------------------------------------

    async def files(self) -> list[str]:
        """Return the names of all posters in the store."""
        return [key.removeprefix("posters/") for key in await keys_in(self.storage, "posters/")]

    async def body(self, file: str) -> bytes:
        return await self.storage.get(f"posters/{file.removeprefix('/posters/')}", 50_000_000)

    def images(self) -> list[dict[str, Any]]:
        """Return the calls for pictures."""
        return self.sandbox.calls(route="image")

    def asked(self, *routes: str) -> list[dict[str, Any]]:
        """Return the calls of these routes."""
        return [call for call in self.sandbox.calls() if call["route"] in routes]


def _waiting(tx: Transaction) -> list[tuple[str, float]]:
    found = select(jobs.c.kind, seconds_until(jobs.c.due_at)).where(jobs.c.kind.in_(KINDS))
    rows: Any = tx.execute(found)
    return [(kind, float(seconds)) for kind, seconds in rows]


def given(one: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a title of the sandbox as it is brought in."""
    names = {"title_japanese": one["names"]["ja"], "title_chinese": one["names"]["zh"]}
    return {"bangumi_id": one["bangumi_id"], **names, "year": one["year"], "poster": one["cover_url"], **changes}


def sought(one: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a title without a poster: only its id is looked for."""
    return given(one, **({"poster": None, "title_chinese": None} | changes))


def picture(form: str = "PNG", size: tuple[int, int] = (80, 120), colour: str = "navy") -> bytes:
    """Return a small picture."""
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, form)
    return file.getvalue()
