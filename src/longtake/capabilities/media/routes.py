"""Assets over HTTP: importing, listing, retrying and deleting them, their files, and uploads of reference images."""

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import RedirectResponse

from longtake.adapters.storage import Storage
from longtake.adapters.storage.errors import ObjectTooLarge
from longtake.adapters.storage.media_type import JPEG, type_of_key
from longtake.capabilities.media.capability import AssetOwners
from longtake.capabilities.media.imports import TAKEN, ImportResult, Imports, Kind, add_reference
from longtake.capabilities.media.removal import delete_asset
from longtake.capabilities.media.schemas import (
    AddBody,
    AssetPage,
    ImportAnswer,
    ImportBody,
    ImportedItem,
    RefusedImport,
    RetryBody,
    Role,
    State,
)
from longtake.capabilities.media.store import (
    AssetFilter,
    find_asset,
    get_own_asset,
    list_assets,
    retry_asset,
    waiting_thumbnail,
)
from longtake.capability import AssetOwner, Context
from longtake.db import Database
from longtake.engine.engine import Engine
from longtake.errors import NotFound
from longtake.http.file_responses import BINARY, FILE_ANSWERS, ServedFile, send_file
from longtake.http.paging import read_cursor, write_cursor
from longtake.http.problem_schema import BODY, CALLER, problems
from longtake.http.strict_json import StrictRoute
from longtake.logs import log_context
from longtake.services.accounts.current_caller import GENERATE, READ, Caller, current_caller
from longtake.services.assets import Asset, AssetLinks, AssetView, Variant, show_asset
from longtake.services.assets.errors import AssetGone, LinkInvalid
from longtake.services.assets.files import LINK_SECONDS, supplied_thumbnail

PAGE_LIMIT = 200
CREATED, OK = 201, 200
#: The body of a retry that has none.
PLAIN_RETRY = RetryBody()

CurrentCaller = Annotated[Caller, Depends(current_caller)]
Expires = Annotated[str | None, Query(max_length=20, description="Of a signed link: until when it works.")]
Signature = Annotated[str | None, Query(max_length=100, description="Of a signed link.")]

_UPLOAD = {"requestBody": {"required": True, "content": dict.fromkeys(TAKEN, BINARY)}}
_FILE = FILE_ANSWERS | {307: {"description": "Where the file is; the address works for minutes."}}


@dataclass(frozen=True, slots=True)
class Media:
    """What the routes of assets need."""

    database: Database
    engine: Engine
    storage: Storage
    links: AssetLinks
    imports: Imports
    owner: AssetOwner
    #: The most bytes of a reference image.
    reference_bytes: int

    async def own(self, asset_id: UUID, caller: Caller) -> Asset:
        """Return the caller's asset. Raises NotFound."""
        return await self.database.read(get_own_asset, str(asset_id), caller.user_id, as_user=caller.user_id)

    async def linked(self, asset_id: UUID) -> Asset:
        """Return the asset of a checked signed link. Raises LinkInvalid."""
        asset = await self.database.read(find_asset, str(asset_id))
        if asset is None:
            raise LinkInvalid("The file of this link has been deleted.")
        return asset

    async def show(self, asset: Asset) -> AssetView:
        """Return the asset as responses have it, with fresh links."""
        return AssetView.model_validate(show_asset(asset, await self.links.addresses(asset)))

    async def show_result(self, result: ImportResult) -> ImportedItem:
        """Return the result of one import as responses have it."""
        error = result.refused
        refused = error and RefusedImport(code=error.code, message=error.message, hint=error.hint)
        asset = result.asset and await self.show(result.asset)
        return ImportedItem(added=result.added, asset=asset, refused=refused)


def routers(context: Context, engine: Engine) -> list[APIRouter]:
    """Return the routes of this process."""
    database, storage, settings = context.database, context.storage, context.settings
    media = Media(
        database=database,
        engine=engine,
        storage=storage,
        links=context.get(AssetLinks),
        imports=Imports(database, context.http, settings.unfinished_imports),
        owner=context.get(AssetOwners),
        reference_bytes=settings.reference_bytes,
    )
    return [build_routes(media)]


def build_routes(media: Media) -> APIRouter:
    """Return the routes of assets."""
    router = APIRouter(prefix="/v1", tags=["assets"], route_class=StrictRoute)
    _add_removal(router, media)
    _add_imports(router, media)
    _add_listing(router, media)
    _add_one(router, media)
    _add_content(router, media, "content", "file")
    _add_content(router, media, "thumbnail", "thumbnail")
    _add_content(router, media, "preview", "moving preview")
    _add_references(router, media)
    return router


def _add_removal(router: APIRouter, media: Media) -> None:
    refusals = problems(*CALLER, "REQUEST_INVALID", "NOT_FOUND", "STATE_CONFLICT")

    @router.delete("/assets/{asset_id}", status_code=204, responses=refusals, summary="Delete an asset")
    async def delete(asset_id: UUID, caller: CurrentCaller) -> None:
        """Delete an upload or import of mine, with its files. A result is deleted with its task or run.

        Scope `generate`.
        """
        caller.require(GENERATE)
        await media.database.run(delete_asset, media.engine, caller.user_id, str(asset_id), media.owner)


def _add_imports(router: APIRouter, media: Media) -> None:
    existing: dict[int | str, dict[str, Any]] = {200: {"model": AssetView, "description": "The asset exists already."}}

    @router.post(
        "/assets",
        status_code=CREATED,
        summary="Import a file",
        responses=existing | problems(*CALLER, *BODY, "TEXT_INVALID", "ADDRESS_REFUSED", "IMPORTS_TOO_MANY"),
    )
    async def add(body: AddBody, caller: CurrentCaller, response: Response) -> AssetView:
        """Import the file at an address: its copy and its thumbnail start at once. The same address is the same asset.

        Scope `generate`.
        """
        caller.require(GENERATE)
        result = await media.imports.add(caller.user_id, body.request(), _request_id())
        response.status_code = CREATED if result.added else OK
        return AssetView.model_validate((await media.show_result(result)).asset)

    @router.post("/assets/import", summary="Import many files", responses=problems(*CALLER, *BODY))
    async def add_many(body: ImportBody, caller: CurrentCaller) -> ImportAnswer:
        """Import up to 100 files as `POST /v1/assets` does. A refused file does not stop the others.

        Scope `generate`.
        """
        caller.require(GENERATE)
        requests = [one.request() for one in body.assets]
        results = await media.imports.add_many(caller.user_id, requests, _request_id())
        return ImportAnswer(items=[await media.show_result(one) for one in results])


def _add_listing(router: APIRouter, media: Media) -> None:
    @router.get("/assets", summary="My assets", responses=problems(*CALLER, "CURSOR_INVALID", "REQUEST_INVALID"))
    async def list_of(
        caller: CurrentCaller,
        role: Annotated[Role | None, Query(description="Where they come from.")] = None,
        kind: Annotated[Kind | None, Query(description="Images or videos.")] = None,
        state: Annotated[State | None, Query(description="The state of our own copy.")] = None,
        before: Annotated[str | None, Query(max_length=100, description="`next` of the previous page.")] = None,
        limit: Annotated[int, Query(ge=1, le=PAGE_LIMIT, description="The most assets on a page.")] = 50,
    ) -> AssetPage:
        """Newest first, page by page. Scope `read`."""
        caller.require(READ)
        cursor = None if before is None else read_cursor(before)
        wanted = AssetFilter(role, kind, state)
        # One more than shown: it tells whether another page follows.
        found = await media.database.read(
            list_assets, caller.user_id, wanted, cursor, limit + 1, as_user=caller.user_id
        )
        shown = found[:limit]
        after = write_cursor((shown[-1].created_at, shown[-1].id)) if len(found) > limit else None
        return AssetPage(assets=[await media.show(one) for one in shown], next=after)


def _add_one(router: APIRouter, media: Media) -> None:
    @router.post(
        "/assets/{asset_id}/retry",
        status_code=202,
        summary="Retry the copy and the thumbnail",
        responses=problems(*CALLER, *BODY, "NOT_FOUND"),
    )
    async def retry(asset_id: UUID, caller: CurrentCaller, body: RetryBody = PLAIN_RETRY) -> AssetView:
        """Start the missing copy and thumbnail at once; nothing happens if both are there.

        Scope `generate`.
        """
        caller.require(GENERATE)
        user_id, request_id = caller.user_id, _request_id()
        asset = await media.database.run(
            lambda tx: retry_asset(tx, media.engine, user_id, str(asset_id), force=body.force, request_id=request_id)
        )
        return await media.show(asset)

    @router.get("/assets/{asset_id}", summary="One asset", responses=problems(*CALLER, "NOT_FOUND"))
    async def show(asset_id: UUID, caller: CurrentCaller) -> AssetView:
        """Return one of my assets, with an address of its file. Scope `read`."""
        caller.require(READ)
        return await media.show(await media.own(asset_id, caller))


def _add_content(router: APIRouter, media: Media, variant: Variant, name: str) -> None:
    async def content(
        asset_id: UUID, request: Request, expires: Expires = None, signature: Signature = None
    ) -> Response:
        if expires is not None or signature is not None:
            media.links.verify(str(asset_id), variant, expires or "", signature or "")
            asset = await media.linked(asset_id)
        else:
            caller = await current_caller(request, None)
            caller.require(READ)
            asset = await media.own(asset_id, caller)
        return await _respond(media, request, asset, variant)

    member = "url" if variant == "content" else f"{variant}_url"
    refusals = problems(*CALLER, "LINK_INVALID", "NOT_FOUND", "ASSET_GONE", "STORAGE_UNAVAILABLE")
    options: dict[str, Any] = {
        "responses": _FILE | refusals,
        "response_class": Response,
        "openapi_extra": {"security": [{"bearer": []}, {}]},
        "description": (
            f"Return the {name}, or a part of it by `Range`. Where the store serves files itself, redirect there.\n\n"
            f"With the signed link in `{member}`, or with a token of the asset's owner and the scope `read`."
        ),
    }
    path = f"/assets/{{asset_id}}/{variant}"
    router.get(path, summary=f"The {name} of an asset", **options)(content)
    router.head(path, summary=f"Headers of an asset's {name}", **options)(content)


def _add_references(router: APIRouter, media: Media) -> None:
    @router.post(
        "/references",
        status_code=201,
        summary="Upload a reference image",
        responses=problems(*CALLER, "BODY_TOO_LARGE", "OBJECT_TOO_LARGE", "MEDIA_REFUSED", "STORAGE_UNAVAILABLE"),
        openapi_extra=_UPLOAD,
    )
    async def upload(request: Request, caller: CurrentCaller) -> AssetView:
        """Keep an image for edits and for videos that begin with it. The body is the file itself. Scope `generate`."""
        caller.require(GENERATE)
        body = await _body(request, media.reference_bytes)
        content_type = request.headers.get("content-type", "")
        asset = await add_reference(media.database, media.storage, caller.user_id, body, content_type, _request_id())
        return await media.show(asset)

    @router.get("/references/{asset_id}", summary="One reference image", responses=problems(*CALLER, "NOT_FOUND"))
    async def show(asset_id: UUID, caller: CurrentCaller) -> AssetView:
        """Return one of my reference images. Scope `read`."""
        caller.require(READ)
        asset = await media.own(asset_id, caller)
        if asset.role != "reference":
            raise NotFound(f"There is no reference {str(asset_id)!r}.", hint="")
        return await media.show(asset)


def _request_id() -> str | None:
    return log_context.get().get("request_id") or None


async def _body(request: Request, most_bytes: int) -> bytes:
    """Return the body. Raises ObjectTooLarge without reading more than the limit."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise ObjectTooLarge(f"The file has more than {most_bytes:,} bytes.", limit=most_bytes)
    return bytes(body)


# -- files -----------------------------------------------------------------------------------------------------------


async def _respond(media: Media, request: Request, asset: Asset, variant: Variant) -> Response:
    """Return the bytes, a part of them, or a redirect to them. The caller has checked access.

    Raises AssetGone for a file that is lost, NotFound for a picture that does not exist, or not yet.
    """
    key = {"content": asset.key, "thumbnail": asset.thumbnail_key, "preview": asset.preview_key}[variant]
    if key is not None:
        return await _respond_object(media.storage, request, asset, variant, key)
    if variant == "content":
        source = media.links.source_url(asset)
        if source is None:
            raise AssetGone(f"The asset {asset.id} has no copy, and its source has ended.")
        return _redirect(source)
    if variant == "thumbnail":
        waiting = await media.database.read(waiting_thumbnail, asset.id) if asset.has_picture else None
        if waiting is not None:
            return send_file(request, _from_memory(asset, waiting))
        own = supplied_thumbnail(asset)
        if own is not None:
            return _redirect(own)
    raise NotFound(f"The asset {asset.id} has no {variant}.", hint="It may follow later: see `thumbnail_state`.")


async def _respond_object(storage: Storage, request: Request, asset: Asset, variant: Variant, key: str) -> Response:
    # Checked before a redirect too: it must not lead to a missing object.
    facts = await storage.facts(key)
    whole = variant == "content"
    if facts is None:
        raise AssetGone(f"The {'file' if whole else variant} of the asset {asset.id} is missing from the storage.")
    # The address is signed for GET only, so this server answers HEAD.
    signed = await storage.signed_url(key, LINK_SECONDS) if request.method != "HEAD" else None
    if signed is not None:
        return _redirect(signed)
    name = asset.id if whole else f"{asset.id}-{variant}"
    served = ServedFile(
        facts.size,
        asset.content_type if whole else type_of_key(key),
        f'"{asset.checksum}"' if whole else facts.etag or f'"{key}"',
        f"{name}.{key.rpartition('.')[2]}",
        partial(storage.read, key),
    )
    return send_file(request, served)


def _from_memory(asset: Asset, picture: bytes) -> ServedFile:
    async def read(start: int, end: int) -> AsyncIterator[bytes]:
        yield picture[start:end]

    etag = f'"{hashlib.sha256(picture).hexdigest()}"'
    return ServedFile(len(picture), JPEG.content_type, etag, f"{asset.id}-thumbnail.jpg", read)


def _redirect(url: str) -> Response:
    return RedirectResponse(url, status_code=307, headers={"Referrer-Policy": "no-referrer"})
