"""A stage for tests of assets: a source of results that behaves as told, and jobs run by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web
from sqlalchemy import insert, select

from longtake import Engine
from longtake.adapters.net import HttpClient
from longtake.capabilities.media.health import SWEEP, StuckCopies
from longtake.capabilities.media.mirror import MIRROR_LANE, Mirror
from longtake.capability import AssetOwner, FreshSource, OwnedAsset
from longtake.db.dialects import NOW, seconds_until
from longtake.engine.control import hurry
from longtake.engine.schedules import run_schedule
from longtake.engine.tables import events, jobs
from longtake.errors import LongtakeError
from longtake.services.alerts import list_alerts
from longtake.services.assets import Asset, NewAsset, find_assets, register_asset
from tests.engine.stage import claim, claim_lane, finish, hire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from longtake import Database, Job, JobKind, Outcome, Transaction
    from longtake.adapters.storage import Storage

USER = "alice"
PNG = b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(5000)
MP4 = b"\0\0\0\x18ftypisom" + random.Random(2).randbytes(5000)


class Source:
    """A server of files, by path; what is not a file is a handler that answers as it likes."""

    def __init__(self) -> None:
        self.files: dict[str, bytes | Callable[[web.Request], Awaitable[web.StreamResponse]]] = {}
        self.requests: list[web.Request] = []
        self.url = ""

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        found = self.files.get(request.path)
        if found is None:
            return web.Response(status=404, text="no such file")
        return web.Response(body=found, content_type="text/plain") if isinstance(found, bytes) else await found(request)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Source]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}"
        try:
            yield self
        finally:
            await runner.cleanup()


def status(
    code: int, body: str = "", headers: Mapping[str, str] | None = None
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return a handler that answers with a status."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=code, text=body, headers=headers)

    return answer


@dataclass
class Provider(AssetOwner):
    """Says what the test tells it to say about results."""

    headers: Mapping[str, str] = field(default_factory=dict)
    answers: list[FreshSource | LongtakeError | None] = field(default_factory=list)
    asked: int = 0
    losses: list[str] = field(default_factory=list)

    async def download_headers(self, _asset: OwnedAsset) -> Mapping[str, str]:
        return self.headers

    async def fresh_source(self, _job: Job, _asset: OwnedAsset) -> FreshSource | None:
        self.asked += 1
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, LongtakeError):
            raise answer
        return answer

    def lost(self, tx: Transaction, assets: Sequence[OwnedAsset]) -> None:
        for asset in assets:
            self.losses.append(asset.id)
            tx.execute(insert(events).values(type="test.lost", subject=asset.id, at=NOW))


class Stage:
    """Runs mirrors one try at a time."""

    def __init__(
        self, database: Database, storage: Storage, *, most_bytes: int = 20_000_000, kinds: Sequence[JobKind] = ()
    ) -> None:
        self.database = database
        self.storage = storage
        self.client = HttpClient(allowed_addresses=["loopback"])
        self.provider = Provider()
        self.source = Source()
        self.mirror = Mirror(
            database,
            storage,
            self.client,
            most_bytes=most_bytes,
            owner=self.provider,
            random_source=random.Random(1),
        )
        self.kind = self.mirror.kind()
        sweeping = StuckCopies(database)
        self.engine = Engine(database, [self.kind, sweeping.kind(), *kinds], [MIRROR_LANE], [sweeping.schedule()])

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Stage]:
        await self.engine.start()
        async with self.source.running():
            yield self
        await self.client.close()

    async def register(self, path: str = "/result.png", kind: Any = "image", **options: Any) -> str:
        new = NewAsset(user_id=USER, kind=kind, source_url=self.source.url + path, **options)
        return await self.database.run(register_asset, new)

    async def claim(self) -> list[Job]:
        worker = await self.database.run(hire)
        return await self.database.run(claim_lane, self.engine, MIRROR_LANE.name, worker)

    async def settle(self, job: Job, outcome: Outcome) -> bool:
        return await self.database.run(finish, self.engine, job, outcome)

    async def try_once(self) -> Outcome:
        """Run the one job that is due, and let its outcome take effect."""
        [job] = await self.claim()
        outcome = await self.kind.handler(job)
        assert await self.settle(job, outcome)
        return outcome

    async def sweep(self) -> None:
        """Run a sweep, as its schedule does."""
        await self.database.run(run_schedule, self.engine, SWEEP)
        worker = await self.database.run(hire)
        [job] = [one for one in await self.database.run(claim, self.engine, worker) if one.kind == SWEEP]
        assert await self.settle(job, await self.engine.kinds[SWEEP].handler(job))

    async def asset(self, asset_id: str) -> Asset:
        return (await self.database.read(find_assets, [asset_id]))[asset_id]

    async def wait_of(self, asset_id: str) -> float:
        """Return in how many seconds the asset's job is due."""

        def read(tx: Transaction) -> float:
            left = select(seconds_until(jobs.c.due_at)).where(jobs.c.key == asset_id)
            return float(tx.execute(left).scalar_one())

        return await self.database.read(read)

    async def hurry(self, asset_id: str) -> None:
        """Make the asset's waiting job due now."""
        assert await self.database.run(hurry, MIRROR_LANE.name, [asset_id]) == 1

    async def alerts(self) -> list[dict[str, Any]]:
        return await self.database.read(list_alerts)

    async def events(self, asset_id: str) -> list[str]:
        def read(tx: Transaction) -> list[str]:
            found = tx.execute(select(events.c.type).where(events.c.subject == asset_id).order_by(events.c.sequence))
            return list(found.scalars())

        return await self.database.read(read)
