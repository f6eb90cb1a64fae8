"""Assets over HTTP: facts and files of one's own, files by signed links, and uploads of reference images."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response

from longtake.adapters.storage import Storage
from longtake.capabilities.media.content import Contents
from longtake.capabilities.media.mirror_store import any_asset, own_asset
from longtake.capabilities.media.references import TAKEN, References
from longtake.db import Database
from longtake.errors import LinkInvalid, NotFound, ObjectTooLarge
from longtake.http.file_responses import BINARY, FILE_ANSWERS
from longtake.http.problem_schema import CALLER, problems
from longtake.logs import log_context
from longtake.services.accounts.current_caller import GENERATE, READ, Caller, current_caller
from longtake.services.assets import Asset, AssetLinks, AssetView, Variant, show_asset

Asking = Annotated[Caller, Depends(current_caller)]
Expires = Annotated[str | None, Query(max_length=20, description="Of a signed link: until when it works.")]
Signature = Annotated[str | None, Query(max_length=100, description="Of a signed link.")]

_UPLOAD = {"requestBody": {"required": True, "content": dict.fromkeys(TAKEN, BINARY)}}
_FILE = FILE_ANSWERS | {307: {"description": "Where the file is; the address works for minutes."}}


def build_routes(
    database: Database, storage: Storage, links: AssetLinks, references: References, *, reference_bytes: int
) -> APIRouter:
    """Return the routes of assets."""
    router = APIRouter(prefix="/v1", tags=["assets"])
    _add_facts(router, database, links)
    contents = Contents(database, storage, links)
    _add_content(router, "content", "file", database, links, contents)
    _add_content(router, "thumbnail", "thumbnail", database, links, contents)
    _add_content(router, "preview", "moving preview", database, links, contents)
    _add_references(router, database, links, references, reference_bytes)
    return router


def _add_facts(router: APIRouter, database: Database, links: AssetLinks) -> None:
    @router.get("/assets/{asset_id}", summary="One asset", responses=problems(*CALLER, "NOT_FOUND"))
    async def show(asset_id: UUID, caller: Asking) -> AssetView:
        """Return what is known of one of my assets, with an address of its file. Scope `read`."""
        caller.require(READ)
        return await _view(await _own(database, asset_id, caller), links)


def _add_content(
    router: APIRouter, variant: Variant, name: str, database: Database, links: AssetLinks, contents: Contents
) -> None:
    async def content(
        asset_id: UUID, request: Request, expires: Expires = None, signature: Signature = None
    ) -> Response:
        if expires is not None or signature is not None:
            links.verify(str(asset_id), variant, expires or "", signature or "")
            asset = await _linked(database, asset_id)
        else:
            caller = await current_caller(request, None)
            caller.require(READ)
            asset = await _own(database, asset_id, caller)
        return await contents.respond(request, asset, variant)

    member = "url" if variant == "content" else f"{variant}_url"
    refusals = problems(*CALLER, "LINK_INVALID", "NOT_FOUND", "ASSET_GONE", "STORAGE_UNAVAILABLE")
    options: dict[str, Any] = {
        "responses": _FILE | refusals,
        "response_class": Response,
        "openapi_extra": {"security": [{"bearer": []}, {}]},
        "description": (
            f"Return the {name}, or a part of it by `Range`; where the store serves files itself, lead there.\n\n"
            f"By a signed link, as answers have them in `{member}`, or with a token of its owner and the scope `read`."
        ),
    }
    path = f"/assets/{{asset_id}}/{variant}"
    router.get(path, summary=f"The {name} of an asset", **options)(content)
    router.head(path, summary=f"Headers of an asset's {name}", **options)(content)


def _add_references(
    router: APIRouter, database: Database, links: AssetLinks, references: References, most_bytes: int
) -> None:
    @router.post(
        "/references",
        status_code=201,
        summary="Upload a reference image",
        responses=problems(*CALLER, "BODY_TOO_LARGE", "OBJECT_TOO_LARGE", "MEDIA_REFUSED", "STORAGE_UNAVAILABLE"),
        openapi_extra=_UPLOAD,
    )
    async def upload(request: Request, caller: Asking) -> AssetView:
        """Keep a picture for edits and for videos that begin with it. The body is the file itself. Scope `generate`."""
        caller.require(GENERATE)
        body = await _body(request, most_bytes)
        content_type = request.headers.get("content-type", "")
        request_id = log_context.get().get("request_id") or None
        return await _view(await references.add(caller.user_id, body, content_type, request_id), links)

    @router.get("/references/{asset_id}", summary="One reference image", responses=problems(*CALLER, "NOT_FOUND"))
    async def show(asset_id: UUID, caller: Asking) -> AssetView:
        """Return what is known of one of my reference images. Scope `read`."""
        caller.require(READ)
        asset = await _own(database, asset_id, caller)
        if asset.role != "reference":
            raise NotFound(f"There is no reference {str(asset_id)!r}.", hint="")
        return await _view(asset, links)


async def _own(database: Database, asset_id: UUID, caller: Caller) -> Asset:
    return await database.read(own_asset, str(asset_id), caller.user_id, as_user=caller.user_id)


async def _linked(database: Database, asset_id: UUID) -> Asset:
    try:
        return await database.read(any_asset, str(asset_id))
    except NotFound:
        raise LinkInvalid("What this link was made for has been removed.") from None


async def _view(asset: Asset, links: AssetLinks) -> AssetView:
    return AssetView.model_validate(show_asset(asset, await links.addresses(asset)))


async def _body(request: Request, most_bytes: int) -> bytes:
    """Return the body, never more than that much of it."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise ObjectTooLarge(f"The file has more than {most_bytes:,} bytes.", limit=most_bytes)
    return bytes(body)
