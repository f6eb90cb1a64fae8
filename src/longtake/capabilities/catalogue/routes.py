"""The routes of the catalogue. Whoever may read sees titles; changing them needs the scope `operate`."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response

from longtake.capabilities.catalogue.poster_downloads import Download
from longtake.capabilities.catalogue.queries import Filter, PosterState, TmdbState
from longtake.capabilities.catalogue.schemas import (
    Begun,
    BegunDownload,
    BroughtTitle,
    CatalogueStatus,
    MatchBody,
    PostersAnswer,
    PostersBody,
    Refusal,
    Rested,
    TitleBody,
    TitlePage,
    TitlesAnswer,
    TitlesBody,
    TitleView,
)
from longtake.capabilities.catalogue.service import Brought, Catalogue
from longtake.errors import LongtakeError
from longtake.http.problem_schema import BODY, CALLER, problems
from longtake.http.strict_json import StrictRoute
from longtake.logs import log_context
from longtake.services.accounts.current_caller import OPERATE, READ, Caller, current_caller

PAGE_LIMIT = 200
MOST_ID = 2**53
CREATED, OK = 201, 200
SHUTDOWN_SECONDS = 20.0

Who = Annotated[Caller, Depends(current_caller)]
WRONG = ("TITLE_INVALID", "TEXT_INVALID", "POSTER_PATH_INVALID")
#: What a request without a body asks for.
NO_CHOICE = MatchBody()


def build_routes(catalogue: Catalogue) -> APIRouter:
    """Return all routes of the catalogue but the posters themselves."""
    router = APIRouter(prefix="/v1/catalogue", tags=["catalogue"], route_class=StrictRoute)
    _add_writing(router, catalogue)
    _add_reading(router, catalogue)
    _add_changing(router, catalogue)
    _add_work(router, catalogue)
    _add_running(router, catalogue)
    return router


def _add_writing(router: APIRouter, catalogue: Catalogue) -> None:
    there: dict[int | str, dict[str, Any]] = {200: {"model": TitleView, "description": "It was there already."}}

    @router.post(
        "/titles", status_code=CREATED, responses=there | problems(*CALLER, *BODY, *WRONG), summary="Add a title"
    )
    async def add(body: TitleBody, caller: Who, response: Response) -> TitleView:
        """Write a title, or what is new about one that is there; its poster and id are seen to. Scope `operate`."""
        caller.require(OPERATE)
        title, written = await catalogue.add(body.model_dump(exclude_none=True), _request_id())
        response.status_code = CREATED if written.result == "created" else OK
        return TitleView.model_validate(title)

    @router.post("/titles/import", responses=problems(*CALLER, *BODY), summary="Add many titles")
    async def add_many(body: TitlesBody, caller: Who) -> TitlesAnswer:
        """Write up to 500 titles; one that is wrong keeps no other out. Scope `operate`."""
        caller.require(OPERATE)
        return TitlesAnswer(items=[_item(one) for one in await catalogue.add_many(body.titles, _request_id())])


def _add_reading(router: APIRouter, catalogue: Catalogue) -> None:
    @router.get("/titles", responses=problems(*CALLER, "REQUEST_INVALID"), summary="Titles")
    async def list_of(
        caller: Who,
        poster: Annotated[PosterState | None, Query(description="Where their poster is.")] = None,
        tmdb: Annotated[TmdbState | None, Query(description="How their look-up stands.")] = None,
        in_trouble: Annotated[bool, Query(description="Only those whose last error stands.")] = False,  # noqa: FBT002
        bangumi_id: Annotated[int | None, Query(ge=1, le=MOST_ID, description="The one with this id.")] = None,
        year: Annotated[int | None, Query(ge=0, le=9_999, description="Of this year.")] = None,
        before: Annotated[UUID | None, Query(description="The `next` of the page before.")] = None,
        limit: Annotated[int, Query(ge=1, le=PAGE_LIMIT, description="How many at most.")] = 50,
    ) -> TitlePage:
        """Newest first, page by page. Scope `read`."""
        caller.require(READ)
        wanted = Filter(poster, tmdb, in_trouble, bangumi_id, year)
        # One more than is shown tells whether there is a page after.
        found = await catalogue.page(wanted, None if before is None else str(before), limit + 1)
        after = found[limit - 1]["id"] if len(found) > limit else None
        return TitlePage.model_validate({"titles": found[:limit], "next": after})

    @router.get("/titles/{title_id}", responses=problems(*CALLER, "NOT_FOUND", "REQUEST_INVALID"), summary="One title")
    async def one(title_id: UUID, caller: Who) -> TitleView:
        """The title with its poster, its id at TMDB or what it may be, and what went wrong last. Scope `read`."""
        caller.require(READ)
        return TitleView.model_validate(await catalogue.show(str(title_id)))


def _add_changing(router: APIRouter, catalogue: Catalogue) -> None:
    @router.post(
        "/titles/{title_id}/match",
        responses=problems(*CALLER, *BODY, "NOT_FOUND", "TITLE_INVALID"),
        summary="Say which show a title is",
    )
    async def match(title_id: UUID, caller: Who, body: MatchBody = NO_CHOICE) -> TitleView:
        """Choose a show of TMDB, or none; nothing overwrites that but `automatic`. Scope `operate`."""
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
    async def delete(title_id: UUID, caller: Who) -> None:
        """Delete a title, and its poster if no other title has it. Scope `operate`."""
        caller.require(OPERATE)
        await catalogue.delete(str(title_id))


def _add_work(router: APIRouter, catalogue: Catalogue) -> None:
    @router.post("/posters", responses=problems(*CALLER, *BODY), summary="Fetch posters now")
    async def download(body: PostersBody, caller: Who) -> PostersAnswer:
        """Give titles these posters and fetch them before anything else; the same address once. Scope `operate`."""
        caller.require(OPERATE)
        wanted = [(str(one.title_id), one.url) for one in body.downloads]
        done = await catalogue.download_batch(wanted, _request_id())
        return PostersAnswer(items=[_download(one) for one in done])

    @router.post("/sync", status_code=202, responses=problems(*CALLER), summary="Sync now")
    async def sync(caller: Who) -> Begun:
        """Fetch posters and look up ids that are due, as happens every hour by itself. Scope `operate`."""
        caller.require(OPERATE)
        return Begun(job_id=await catalogue.trigger_sync(_request_id()))

    @router.post("/calendar", status_code=202, responses=problems(*CALLER), summary="Refresh the calendar now")
    async def calendar(caller: Who) -> Begun:
        """Make titles of what Bangumi says is on air, then sync. Scope `operate`."""
        caller.require(OPERATE)
        return Begun(job_id=await catalogue.refresh_calendar(_request_id()))


def _add_running(router: APIRouter, catalogue: Catalogue) -> None:
    @router.get("/status", responses=problems(*CALLER), summary="How the catalogue stands")
    async def status(caller: Who) -> CatalogueStatus:
        """Whether anybody works on it, what is under way, and how many titles stand how. Scope `read`."""
        caller.require(READ)
        return CatalogueStatus.model_validate(await catalogue.status())

    @router.post("/shutdown", responses=problems(*CALLER), summary="Stop the catalogue's work in order")
    async def shutdown(caller: Who) -> Rested:
        """Begin nothing more on any machine, and wait up to 20 s for what is under way. Scope `operate`."""
        caller.require(OPERATE)
        return Rested(at_rest=await catalogue.shutdown(SHUTDOWN_SECONDS))

    @router.post("/start", status_code=204, responses=problems(*CALLER), summary="Go on after a shutdown")
    async def start(caller: Who) -> None:
        """Go on with what waits. Scope `operate`."""
        caller.require(OPERATE)
        await catalogue.start()


def _item(one: Brought) -> BroughtTitle:
    if one.written is None:
        return BroughtTitle(id=None, result="refused", refused=_refusal(one.refused))
    return BroughtTitle(id=one.written.id, result=one.written.result, refused=None)


def _download(one: Download) -> BegunDownload:
    return BegunDownload(title_id=one.title_id, queued=one.queued, refused=_refusal(one.refused))


def _refusal(error: LongtakeError | None) -> Refusal | None:
    return None if error is None else Refusal(code=error.code, message=error.message, hint=error.hint or "")


def _request_id() -> str | None:
    return log_context.get().get("request_id") or None
