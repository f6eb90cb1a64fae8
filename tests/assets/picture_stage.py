"""A stage for tests of thumbnails and previews: jobs run by hand, real decoders, a storage that can go away."""

from __future__ import annotations

import io
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web
from PIL import Image
from sqlalchemy import select

from longtake import Engine
from longtake.adapters.decoder.pool import DecoderPool
from longtake.capabilities.media.mirror import MIRROR_LANE
from longtake.capabilities.media.store import asset_pictures
from longtake.capabilities.media.thumbnails import (
    PREVIEW_LANE,
    THUMBNAIL_LANE,
    CloudflareFrames,
    Previews,
    ThumbnailMaker,
    Thumbnails,
)
from longtake.engine.tables import jobs
from longtake.services.assets import THUMBNAIL
from longtake_sandbox.media import draw_clip
from tests.assets.stage import Source, Stage
from tests.engine.stage import claim_lane, hire
from tests.wait import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from longtake import Database, Job, Outcome, Transaction
    from longtake.adapters.storage import Storage
    from tests.assets.test_mirror_storage import Between

CLIP = draw_clip("a fox in snow", "16:9", faststart=True)


def drawn(size: tuple[int, int] = (300, 200), form: str = "PNG") -> bytes:
    """Return a picture that is a real one."""
    out = io.BytesIO()
    Image.linear_gradient("L").resize(size).convert("RGB").save(out, form)
    return out.getvalue()


def by_parts(body: bytes, asked: list[str] | None = None) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return a handler that gives parts of a file, as stores of providers do."""

    async def answer(request: web.Request) -> web.StreamResponse:
        wanted = request.headers.get("Range")
        if asked is not None:
            asked.append(wanted or "")
        if wanted is None:
            return web.Response(body=body)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last or len(body)), len(body) - 1)
        if start >= len(body):
            return web.Response(status=416)
        told = {"Content-Range": f"bytes {start}-{end}/{len(body)}", "ETag": '"one"'}
        return web.Response(status=206, body=body[start : end + 1], headers=told)

    return answer


@dataclass(frozen=True, slots=True)
class Removable:
    """A storage that can be taken away; then whoever uses it is told `code`."""

    storage: Storage
    code: str
    take_away: Callable[[], None]
    bring_back: Callable[[], None]


def removable_folder(storage: Storage, folder: Path) -> Removable:
    """Return the storage in a folder; while a file is in its place, nothing can be read or written."""
    aside = folder.with_name("aside")

    def take_away() -> None:
        if folder.exists():
            folder.rename(aside)
        folder.write_text("not a folder")

    def bring_back() -> None:
        folder.unlink()
        if aside.exists():
            aside.rename(folder)

    return Removable(storage, "STORAGE_REFUSED", take_away, bring_back)


def removable_bucket(between: Between) -> Removable:
    """Return a storage in a bucket that answers 503 while it is away."""

    def answer(code: int | None) -> None:
        between.status = code

    return Removable(between.storage(), "STORAGE_UNAVAILABLE", lambda: answer(503), lambda: answer(None))


class PictureStage(Stage):
    """Runs jobs of any media kind one try at a time."""

    def __init__(self, database: Database, removable: Removable) -> None:
        super().__init__(database, removable.storage)
        self.removable = removable
        self.decoders = DecoderPool(1)
        self.zone = Source()
        self.mirror_kind = self.kind
        self.declare()

    def declare(self, cloudflare: CloudflareFrames | None = None) -> None:
        """Put the kinds together."""
        stills = ThumbnailMaker(self.storage, self.client, self.decoders, self.provider, cloudflare)
        thumbnails = Thumbnails(self.database, self.storage, stills)
        previews = Previews(self.database, self.storage, self.decoders)
        kinds = [self.mirror_kind, thumbnails.kind(), previews.kind()]
        self.engine = Engine(self.database, kinds, [MIRROR_LANE, THUMBNAIL_LANE, PREVIEW_LANE])

    @asynccontextmanager
    async def open(self) -> AsyncIterator[PictureStage]:
        async with super().open(), self.zone.running():
            yield self
        await self.decoders.close()

    async def use_cloudflare(self) -> None:
        """Let thumbnails be asked for at the zone first."""
        self.declare(CloudflareFrames(self.client, self.decoders, self.zone.url))
        await self.engine.start()

    async def claimed(self, kind: str = THUMBNAIL) -> list[Job]:
        """Return what of a kind is due; its lane has its name."""
        worker = await self.database.run(hire)
        return await self.database.run(claim_lane, self.engine, kind, worker)

    async def run(self, kind: str = THUMBNAIL) -> Outcome:
        """Run the one job of a kind that is due, and let its outcome take effect."""
        [job] = await self.claimed(kind)
        outcome = await self.engine.kinds[kind].handler(job)
        assert await self.settle(job, outcome)
        return outcome

    async def live(self, asset_id: str) -> list[tuple[str, Any]]:
        """Return kind and arguments of the asset's jobs that have not ended."""

        def read(tx: Transaction) -> list[tuple[str, Any]]:
            found = tx.execute(select(jobs.c.kind, jobs.c.args).where(jobs.c.subject == asset_id).order_by(jobs.c.kind))
            return [(row.kind, row.args) for row in found]

        return await self.database.read(read)

    async def waiting(self) -> list[str]:
        """Return the assets whose picture waits for the storage."""

        def read(tx: Transaction) -> list[str]:
            return list(tx.execute(select(asset_pictures.c.asset_id)).scalars())

        return await self.database.read(read)


async def until_columns(stage: PictureStage, asset_id: str, **wanted: Any) -> None:
    """Wait for columns of the row to have these values."""

    async def look() -> dict[str, Any]:
        asset = await stage.asset(asset_id)
        return {name: getattr(asset, name) for name in wanted}

    await until(look, f"{wanted}", lambda seen: seen == wanted)
