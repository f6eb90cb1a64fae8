"""The routes of the catalogue: the scope `read` shows titles, `operate` changes them; posters are open to all.

Caches may keep posters for ever, since another version of a poster has another name.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from longtake.adapters.storage import Storage
from longtake.adapters.storage.keys import poster_key, type_of_key
from longtake.capabilities.catalogue.poster_fetcher import LOCAL_PREFIX
from longtake.capabilities.catalogue.poster_store import forget_file, names_file
from longtake.capabilities.catalogue.posters import DownloadResult
from longtake.capabilities.catalogue.queries import PosterState, TitleFilter, TmdbState
from longtake.capabilities.catalogue.schemas import (
    CatalogueStatus,
    ImportedTitle,
    ImportedTitles,
    MatchBody,
    PosterDownload,
    PosterDownloads,
    PostersBody,
    Refusal,
    ShutdownResult,
    StartedJob,
    TitleBody,
    TitlePage,
    TitlesBody,
    TitleView,
)
from longtake.capabilities.catalogue.service import Catalogue, ImportResult
from longtake.capability import Context
from longtake.db import Database
from longtake.engine.engine import Engine
from longtake.errors import LongtakeError, NotFound
from longtake.http.file_responses import FILE_ANSWERS, ServedFile, send_file
from longtake.http.problem_schema import BODY, CALLER, problems
from longtake.http.strict_json import StrictRoute
from longtake.logs import log_context
from longtake.services.accounts.current_caller import OPERATE, READ, Caller, current_caller

PAGE_LIMIT = 200
MOST_ID = 2**53
CREATED, OK = 201, 200
SHUTDOWN_SECONDS = 20.0
POSTER_FILE = r"^[0-9A-Za-z_-][0-9A-Za-z._-]{0,100}$"
POSTER_CACHING = "public, max-age=31536000, immutable"

CurrentCaller = Annotated[Caller, Depends(current_caller)]
TITLE_ERRORS = ("TITLE_INVALID", "TEXT_INVALID", "POSTER_PATH_INVALID")
#: The body of a request without one.
EMPTY_MATCH = MatchBody()


def routers(context: Context, engine: Engine) -> list[APIRouter]:
    """Return the routes of this process."""
    return [build_routes(Catalogue.of(context, engine)), build_poster_routes(context.database, context.storage)]


def build_routes(catalogue: Catalogue) -> APIRouter:
    """Return the routes of the catalogue, except those of poster files."""
    router = APIRouter(prefix="/v1/catalogue", tags=["catalogue"], route_class=StrictRoute)
    _add_imports(router, catalogue)
    _add_reads(router, catalogue)
    _add_changes(router, catalogue)
    _add_work(router, catalogue)
    _add_operation(router, catalogue)
    return router


def _add_imports(router: APIRouter, catalogue: Catalogue) -> None:
    existing: dict[int | str, dict[str, Any]] = {200: {"model": TitleView, "description": "The title existed already."}}

    @router.post(
        "/titles",
        status_code=CREATED,
        responses=existing | problems(*CALLER, *BODY, *TITLE_ERRORS),
        summary="Add a title",
    )
    async def add(body: TitleBody, caller: CurrentCaller, response: Response) -> TitleView:
        """Add a title or update an existing one; its poster and TMDB id are looked up. Scope `operate`."""
        caller.require(OPERATE)
        title, written = await catalogue.add(body.model_dump(exclude_none=True), _request_id())
        response.status_code = CREATED if written.result == "created" else OK
        return TitleView.model_validate(title)

    @router.post("/titles/import", responses=problems(*CALLER, *BODY), summary="Add many titles")
    async def add_many(body: TitlesBody, caller: CurrentCaller) -> ImportedTitles:
        """Write up to 500 titles; an invalid one does not keep out the others. Scope `operate`."""
        caller.require(OPERATE)
        return ImportedTitles(items=[_item(one) for one in await catalogue.add_many(body.titles, _request_id())])


def _add_reads(router: APIRouter, catalogue: Catalogue) -> None:
    @router.get("/titles", responses=problems(*CALLER, "REQUEST_INVALID"), summary="Titles")
    async def list_of(
        caller: CurrentCaller,
        poster: Annotated[PosterState | None, Query(description="By where the poster is.")] = None,
        tmdb: Annotated[TmdbState | None, Query(description="By the state of the look-up at TMDB.")] = None,
        in_trouble: Annotated[bool, Query(description="Only titles with an error that still applies.")] = False,  # noqa: FBT002
        bangumi_id: Annotated[int | None, Query(ge=1, le=MOST_ID, description="The one with this Bangumi id.")] = None,
        year: Annotated[int | None, Query(ge=0, le=9_999, description="Titles of this year.")] = None,
        before: Annotated[UUID | None, Query(description="The `next` of the previous page.")] = None,
        limit: Annotated[int, Query(ge=1, le=PAGE_LIMIT, description="The most titles to return.")] = 50,
    ) -> TitlePage:
        """Newest first, page by page. Scope `read`."""
        caller.require(READ)
        wanted = TitleFilter(poster, tmdb, in_trouble, bangumi_id, year)
        # One more than is shown tells whether there is a next page.
        found = await catalogue.page(wanted, None if before is None else str(before), limit + 1)
        after = found[limit - 1]["id"] if len(found) > limit else None
        return TitlePage.model_validate({"titles": found[:limit], "next": after})

    @router.get("/titles/{title_id}", responses=problems(*CALLER, "NOT_FOUND", "REQUEST_INVALID"), summary="One title")
    async def one(title_id: UUID, caller: CurrentCaller) -> TitleView:
        """The title with its poster, its TMDB id or the candidates for it, and its last error. Scope `read`."""
        caller.require(READ)
        return TitleView.model_validate(await catalogue.show(str(title_id)))


def _add_changes(router: APIRouter, catalogue: Catalogue) -> None:
    @router.post(
        "/titles/{title_id}/match",
        responses=problems(*CALLER, *BODY, "NOT_FOUND", "TITLE_INVALID"),
        summary="Choose the show of a title",
    )
    async def match(title_id: UUID, caller: CurrentCaller, body: MatchBody = EMPTY_MATCH) -> TitleView:
        """Choose a show of TMDB, or none. Only `automatic` undoes the choice. Scope `operate`."""
        caller.require(OPERATE)
        if body.automatic:
            return TitleView.model_validate(await catalogue.look_up_again(str(title_id), _request_id()))
        return TitleView.model_validate(await catalogue.choose(str(title_id), body.tmdb_id))

    @router.delete(
        "/titles/{title_id}",
        status_code=204,
        responses=problems(*CALLER, "NOT_FOUND", "REQUEST_INVALID"),
        summary="Delete a title",
    )
    async def delete(title_id: UUID, caller: CurrentCaller) -> None:
        """Delete a title, and its poster if no other title has it. Scope `operate`."""
        caller.require(OPERATE)
        await catalogue.delete(str(title_id))


def _add_work(router: APIRouter, catalogue: Catalogue) -> None:
    @router.post("/posters", responses=problems(*CALLER, *BODY), summary="Fetch posters now")
    async def download(body: PostersBody, caller: CurrentCaller) -> PosterDownloads:
        """Give titles these posters and fetch them first; each address once. Scope `operate`."""
        caller.require(OPERATE)
        wanted = [(str(one.title_id), one.url) for one in body.downloads]
        done = await catalogue.download_batch(wanted, _request_id())
        return PosterDownloads(items=[_download(one) for one in done])

    @router.post("/sync", status_code=202, responses=problems(*CALLER), summary="Sync now")
    async def sync(caller: CurrentCaller) -> StartedJob:
        """Fetch posters and look up ids that are due, as the schedule does every hour. Scope `operate`."""
        caller.require(OPERATE)
        return StartedJob(job_id=await catalogue.trigger_sync(_request_id()))

    @router.post("/calendar", status_code=202, responses=problems(*CALLER), summary="Refresh the calendar now")
    async def calendar(caller: CurrentCaller) -> StartedJob:
        """Add the shows that Bangumi lists as on air, then sync. Scope `operate`."""
        caller.require(OPERATE)
        return StartedJob(job_id=await catalogue.refresh_calendar(_request_id()))


def _add_operation(router: APIRouter, catalogue: Catalogue) -> None:
    @router.get("/status", responses=problems(*CALLER), summary="Status of the catalogue")
    async def status(caller: CurrentCaller) -> CatalogueStatus:
        """Whether it runs, its jobs, and how many titles are in which state. Scope `read`."""
        caller.require(READ)
        return CatalogueStatus.model_validate(await catalogue.status())

    @router.post("/shutdown", responses=problems(*CALLER), summary="Shut the catalogue down")
    async def shutdown(caller: CurrentCaller) -> ShutdownResult:
        """Start no more jobs on any machine, and wait up to 20 s for running ones. Scope `operate`."""
        caller.require(OPERATE)
        return ShutdownResult(at_rest=await catalogue.shutdown(SHUTDOWN_SECONDS))

    @router.post("/start", status_code=204, responses=problems(*CALLER), summary="Resume after a shutdown")
    async def start(caller: CurrentCaller) -> None:
        """Run the waiting jobs. Scope `operate`."""
        caller.require(OPERATE)
        await catalogue.start()


def build_poster_routes(database: Database, storage: Storage) -> APIRouter:
    """Return the routes of poster files."""
    router = APIRouter(tags=["catalogue"])

    async def poster(
        file: Annotated[str, Path(pattern=POSTER_FILE, description="Its name.", examples=["0f343b0931126a20.jpg"])],
        request: Request,
    ) -> Response:
        """A title's `poster_url` or `thumbnail_url`. Needs no token."""
        key = poster_key(file)
        facts = await storage.facts(key)
        if facts is None:
            if await database.read(names_file, file):
                # The object was removed outside of the service: fetch it again, and use the source meanwhile.
                await database.run(forget_file, file)
            raise NotFound(f"There is no poster {file!r}.", hint="A title names its poster in `poster_url`.")
        etag, media_type = facts.etag or f'"{file}"', type_of_key(key)
        read = partial(storage.read, key)
        return send_file(request, ServedFile(facts.size, media_type, etag, file, read, POSTER_CACHING))

    options: dict[str, Any] = {
        "response_class": Response,
        "responses": FILE_ANSWERS | problems("NOT_FOUND", "REQUEST_INVALID", "STORAGE_UNAVAILABLE"),
    }
    router.get(LOCAL_PREFIX + "{file}", summary="A poster", **options)(poster)
    router.head(LOCAL_PREFIX + "{file}", summary="Headers of a poster", **options)(poster)
    return router


def _item(one: ImportResult) -> ImportedTitle:
    if one.written is None:
        return ImportedTitle(id=None, result="refused", refused=_refusal(one.refused))
    return ImportedTitle(id=one.written.id, result=one.written.result, refused=None)


def _download(one: DownloadResult) -> PosterDownload:
    return PosterDownload(title_id=one.title_id, queued=one.queued, refused=_refusal(one.refused))


def _refusal(error: LongtakeError | None) -> Refusal | None:
    return None if error is None else Refusal(code=error.code, message=error.message, hint=error.hint or "")


def _request_id() -> str | None:
    return log_context.get().get("request_id") or None
