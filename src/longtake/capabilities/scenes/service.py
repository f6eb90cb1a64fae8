"""The use cases of scenes, one for each route."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from longtake.capabilities.scenes.models import SceneModels
from longtake.capabilities.scenes.queue import (
    NOTHING,
    ImageOrder,
    RunOutlook,
    advance_run,
    queue_scenes,
    read_outlook,
    regenerate_scene,
)
from longtake.capabilities.scenes.runs import NewRun, cancel_run, check_scene_prompt, create_run
from longtake.capabilities.scenes.schemas import show_run, show_summary
from longtake.capabilities.scenes.tables import Run, get_run, list_runs
from longtake.capability import Context
from longtake.db import Transaction
from longtake.engine.engine import Engine
from longtake.http.idempotency import Answer, Keyed, once
from longtake.services.assets import AssetLinks, find_assets
from longtake.services.models import Model


class Scenes:
    """The use cases of scenes."""

    def __init__(self, context: Context, engine: Engine) -> None:
        self.database = context.database
        self.engine = engine
        self.models = context.get(SceneModels)
        self.links = context.get(AssetLinks)
        #: The most live image jobs of one user.
        self.most = context.settings.unfinished_tasks

    async def create(self, new: NewRun, key: Keyed | None, *, advance: bool) -> Answer:
        """Create the run, and queue its images with ``advance``; a repeated key gets the first answer again."""
        order = self._order(new.model, new.request_id)
        return await self.database.run(_create, self.engine, new, order, key, advance)

    async def advance(self, user_id: str, run_id: str, request_id: str, *, failed: bool) -> dict[str, Any]:
        order = await self._order_again(user_id, run_id, request_id)
        action, queued, run = await self.database.run(advance_run, self.engine, user_id, run_id, order, failed)
        return {"action": action, "queued": queued, "run": await self._show(user_id, run)}

    async def regenerate(
        self, user_id: str, run_id: str, number: int, prompt: str | None, request_id: str
    ) -> dict[str, Any]:
        order = await self._order_again(user_id, run_id, request_id)
        if prompt is not None:
            prompt = check_scene_prompt(order.model, number, prompt)
        run = await self.database.run(regenerate_scene, self.engine, user_id, run_id, number, prompt, order)
        return await self._show(user_id, run)

    async def cancel(self, user_id: str, run_id: str) -> dict[str, Any]:
        while (run := await self.database.run(cancel_run, user_id, run_id)).live:
            pass
        return await self._show(user_id, run)

    async def show(self, user_id: str, run_id: str) -> dict[str, Any]:
        return await self._show(user_id, await self.database.read(get_run, user_id, run_id, as_user=user_id))

    async def page(self, user_id: str, before: str | None, limit: int) -> list[dict[str, Any]]:
        found = await self.database.read(list_runs, user_id, before, limit, as_user=user_id)
        outlook = await self._outlook(found)
        return [show_summary(run, outlook) for run in found]

    def _order(self, model: Model, request_id: str | None) -> ImageOrder:
        return ImageOrder(model, self.models.lane_of(model), self.most, request_id)

    async def _order_again(self, user_id: str, run_id: str, request_id: str) -> ImageOrder:
        run = await self.database.read(get_run, user_id, run_id, as_user=user_id)
        # Looked up again: the price may have changed, and the model may be gone.
        return self._order(self.models.find(run.model), request_id)

    async def _show(self, user_id: str, run: Run) -> dict[str, Any]:
        wanted = [scene.image.asset_id for scene in run.scenes if scene.image is not None and scene.image.asset_id]
        assets = {}
        if wanted:
            assets = await self.database.read(find_assets, wanted, user_id, as_user=user_id)
        images = {asset_id: (asset, await self.links.addresses(asset)) for asset_id, asset in assets.items()}
        return show_run(run, images, await self._outlook([run]))

    async def _outlook(self, runs: Sequence[Run]) -> RunOutlook:
        live = {run.id: [job.id for job in run.live] for run in runs if run.live}
        return await self.database.read(read_outlook, live) if live else NOTHING


def _create(
    tx: Transaction,
    engine: Engine,
    new: NewRun,
    order: ImageOrder,
    key: Keyed | None,
    advance: bool,  # noqa: FBT001 - called through Database.run, which passes positions only
) -> Answer:
    def work() -> Answer:
        create_run(tx, new)
        run = get_run(tx, new.user_id, new.id)
        if advance:
            queue_scenes(tx, engine, run, run.scenes, order)
            run = get_run(tx, new.user_id, new.id)
        return Answer(201, show_run(run, {}))

    return once(tx, key, work)
