"""Assets of one's own over HTTP: bringing in, listing, trying again."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response

from longtake.capabilities.media.import_schemas import (
    AddBody,
    AssetPage,
    ImportAnswer,
    ImportBody,
    RetryBody,
    Role,
    State,
    refused_import,
)
from longtake.capabilities.media.imports import Adding, Brought, Kind
from longtake.capabilities.media.queries import Filter, list_assets, retry_asset
from longtake.db import Database
from longtake.engine.engine import Engine
from longtake.http.paging import read_cursor, write_cursor
from longtake.http.problem_schema import BODY, CALLER, problems
from longtake.http.strict_json import StrictRoute
from longtake.logs import log_context
from longtake.services.accounts.current_caller import GENERATE, READ, Caller, current_caller
from longtake.services.assets import Asset, AssetLinks, AssetView, show_asset

PAGE_LIMIT = 200
CREATED, OK = 201, 200
#: What a request without a body asks for.
ONCE_MORE = RetryBody()

Asking = Annotated[Caller, Depends(current_caller)]


def build_routes(database: Database, engine: Engine, links: AssetLinks, adding: Adding) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix="/v1", tags=["assets"], route_class=StrictRoute)
    _add_adding(router, links, adding)
    _add_listing(router, database, links)
    _add_retry(router, database, engine, links)
    return router


def _add_adding(router: APIRouter, links: AssetLinks, adding: Adding) -> None:
    there: dict[int | str, dict[str, Any]] = {200: {"model": AssetView, "description": "It was there already."}}

    @router.post(
        "/assets",
        status_code=CREATED,
        summary="Bring in a file",
        responses=there | problems(*CALLER, *BODY, "TEXT_INVALID", "ADDRESS_REFUSED", "IMPORTS_TOO_MANY"),
    )
    async def add(body: AddBody, caller: Asking, response: Response) -> AssetView:
        """Keep what is at the address: its copy and its thumbnail begin at once. The same address is the same asset.

        Scope `generate`.
        """
        caller.require(GENERATE)
        brought = await adding.add(caller.user_id, body.wanted(), _request_id())
        response.status_code = CREATED if brought.added else OK
        return AssetView.model_validate((await _item(brought, links))["asset"])

    @router.post("/assets/import", summary="Bring in many files", responses=problems(*CALLER, *BODY))
    async def add_many(body: ImportBody, caller: Asking) -> ImportAnswer:
        """Keep up to 100 files as `POST /v1/assets` does; one that is refused keeps no other out. Scope `generate`."""
        caller.require(GENERATE)
        brought = await adding.add_many(caller.user_id, [one.wanted() for one in body.assets], _request_id())
        return ImportAnswer.model_validate({"items": [await _item(one, links) for one in brought]})


def _add_listing(router: APIRouter, database: Database, links: AssetLinks) -> None:
    @router.get("/assets", summary="My assets", responses=problems(*CALLER, "CURSOR_INVALID", "REQUEST_INVALID"))
    async def list_of(
        caller: Asking,
        role: Annotated[Role | None, Query(description="Where they are from.")] = None,
        kind: Annotated[Kind | None, Query(description="What they are.")] = None,
        state: Annotated[State | None, Query(description="Where our own copy stands.")] = None,
        before: Annotated[str | None, Query(max_length=100, description="The `next` of the page before.")] = None,
        limit: Annotated[int, Query(ge=1, le=PAGE_LIMIT, description="How many at most.")] = 50,
    ) -> AssetPage:
        """Newest first, page by page. Scope `read`."""
        caller.require(READ)
        cursor = None if before is None else read_cursor(before)
        wanted = Filter(role, kind, state)
        # One more than is shown tells whether there is a page after.
        found = await database.read(list_assets, caller.user_id, wanted, cursor, limit + 1, as_user=caller.user_id)
        shown = found[:limit]
        after = write_cursor((shown[-1].created_at, shown[-1].id)) if len(found) > limit else None
        return AssetPage.model_validate({"assets": [await _view(one, links) for one in shown], "next": after})


def _add_retry(router: APIRouter, database: Database, engine: Engine, links: AssetLinks) -> None:
    @router.post(
        "/assets/{asset_id}/retry",
        status_code=202,
        summary="Try again to keep a file",
        responses=problems(*CALLER, *BODY, "NOT_FOUND"),
    )
    async def retry(asset_id: UUID, caller: Asking, body: RetryBody = ONCE_MORE) -> AssetView:
        """Try at once what is missing of the copy and the thumbnail; where nothing is, nothing happens.

        Scope `generate`.
        """
        caller.require(GENERATE)
        asset = await database.run(_retry, engine, caller.user_id, str(asset_id), body.force, _request_id())
        return AssetView.model_validate(await _view(asset, links))


def _retry(tx: Any, engine: Engine, user_id: str, asset_id: str, force: bool, request_id: str | None) -> Asset:  # noqa: FBT001
    return retry_asset(tx, engine, user_id, asset_id, force=force, request_id=request_id)


async def _item(brought: Brought, links: AssetLinks) -> dict[str, Any]:
    if brought.refused is not None:
        return refused_import(brought.refused.code, brought.refused.message, brought.refused.hint)
    shown = None if brought.asset is None else await _view(brought.asset, links)
    return {"added": brought.added, "asset": shown, "refused": None}


async def _view(asset: Asset, links: AssetLinks) -> dict[str, Any]:
    return show_asset(asset, await links.addresses(asset))


def _request_id() -> str | None:
    return log_context.get().get("request_id") or None
