"""The route that deletes an asset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends

from longtake.capabilities.media.mirror_store import own_asset
from longtake.db import Database, Transaction
from longtake.engine.engine import Engine
from longtake.errors import StateConflict
from longtake.http.problem_schema import CALLER, problems
from longtake.services.accounts.current_caller import GENERATE, Caller, current_caller
from longtake.services.assets.store import remove_assets

#: Raises StateConflict while somebody still needs the user's reference.
RequireUnused = Callable[[Transaction, str, str], None]


def build_routes(database: Database, engine: Engine, require_unused: RequireUnused) -> APIRouter:
    """Return the route."""
    router = APIRouter(prefix="/v1", tags=["assets"])
    refusals = problems(*CALLER, "REQUEST_INVALID", "NOT_FOUND", "STATE_CONFLICT")

    @router.delete("/assets/{asset_id}", status_code=204, responses=refusals, summary="Delete an asset")
    async def delete(asset_id: UUID, caller: Annotated[Caller, Depends(current_caller)]) -> None:
        """Delete something that I uploaded or brought in, with its files. A result goes with its task or run.

        Scope `generate`.
        """
        caller.require(GENERATE)
        await database.run(delete_asset, engine, caller.user_id, str(asset_id), require_unused)

    return router


def delete_asset(tx: Transaction, engine: Engine, user_id: str, asset_id: str, require_unused: RequireUnused) -> None:
    """Remove an asset of the user's, unless something else stands on it."""
    asset = own_asset(tx, asset_id, user_id)
    if asset.role == "result" and asset.task_id is not None:
        message = f"The asset {asset_id} is a result: it goes with its task {asset.task_id}."
        raise StateConflict(message, hint=f"DELETE /v1/tasks/{asset.task_id} deletes both.")
    if asset.role == "scene":
        message = f"The asset {asset_id} is the image of a scene: it goes with its run."
        raise StateConflict(message, hint="DELETE /v1/runs/{run_id} deletes both.")
    if asset.role == "reference":
        require_unused(tx, user_id, asset_id)
    if not remove_assets(tx, engine, [asset_id]):
        # Somebody else has just deleted it; now it is as missing as it will be next time.
        own_asset(tx, asset_id, user_id)
