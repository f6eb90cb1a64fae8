"""The routes of runs and their scenes."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Path, Query, Response

from longtake.capabilities.scenes.runs import check_run, delete_run
from longtake.capabilities.scenes.schemas import AdvanceAnswer, AdvanceBody, RegenerateBody, RunAnswer, RunBody, RunPage
from longtake.capabilities.scenes.service import Scenes
from longtake.capability import Context
from longtake.engine.engine import Engine
from longtake.http.idempotency import keyed
from longtake.http.problem_schema import BODY, CALLER, answers, problems
from longtake.http.strict_json import StrictRoute, json_response
from longtake.logs import request_id
from longtake.services.accounts.current_caller import GENERATE, READ, Caller, current_caller

PAGE_LIMIT = 200
MOST_NUMBER = 100
#: The bodies of requests without one.
PLAIN_ADVANCE, PLAIN_REGENERATE = AdvanceBody(), RegenerateBody()

_QUEUED = ("INSUFFICIENT_CREDITS", "TASKS_TOO_MANY", "MODEL_UNKNOWN", "MODEL_NOT_FOR_SCENES", "PROVIDER_NOT_CONFIGURED")
_REFUSED = (
    *("SCENE_COUNT_INVALID", "PROMPT_INVALID", "TEXT_INVALID", "PARAMETER_UNKNOWN", "PARAMETER_INVALID"),
    *("IDEMPOTENCY_KEY_INVALID", "IDEMPOTENCY_KEY_REUSED", "IDEMPOTENCY_KEY_IN_USE"),
)

CurrentCaller = Annotated[Caller, Depends(current_caller)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        description="The same key with the same body gets the first answer again; 1 to 255 characters.",
        examples=["fox-1"],
    ),
]


def routers(context: Context, engine: Engine) -> list[APIRouter]:
    """Return the routes of this process."""
    scenes = Scenes(context, engine)
    router = APIRouter(prefix="/v1", tags=["runs"], route_class=StrictRoute)
    _add_creation(router, scenes)
    _add_queue(router, scenes)
    _add_reads(router, scenes)
    _add_endings(router, scenes)
    return [router]


def _add_creation(router: APIRouter, scenes: Scenes) -> None:
    made: dict[int | str, dict[str, Any]] = {201: {"model": RunAnswer, "description": "The run is written"}}

    @router.post(
        "/runs", status_code=201, responses=made | problems(*CALLER, *BODY, *_QUEUED, *_REFUSED), summary="Create a run"
    )
    async def create(body: RunBody, caller: CurrentCaller, idempotency_key: IdempotencyKey = None) -> Response:
        """Create a run of 3, 5, 7 or 10 scenes; advancing it generates its images. Scope `generate`."""
        caller.require(GENERATE)
        new = check_run(
            scenes.models,
            caller.user_id,
            title=body.title,
            model=body.model,
            parameters=body.parameters,
            prompts=[one.prompt for one in body.scenes],
            request_id=request_id(),
        )
        wanted = keyed(caller.user_id, "runs", idempotency_key, body.model_dump(mode="json"))
        answer = await scenes.create(new, wanted, advance=body.advance)
        return json_response(answer.body, answer.status, answer.headers(f"/v1/runs/{answer.body['id']}"))


def _add_queue(router: APIRouter, scenes: Scenes) -> None:
    changed = (*BODY, *_QUEUED, "NOT_FOUND", "STATE_CONFLICT")

    @router.post("/runs/{run_id}/advance", responses=answers(AdvanceAnswer, *changed), summary="Queue a run's images")
    async def advance(run_id: UUID, caller: CurrentCaller, body: AdvanceBody = PLAIN_ADVANCE) -> Response:
        """Queue scenes without an image that are not queued yet, and answer at once. Scope `generate`."""
        caller.require(GENERATE)
        return json_response(await scenes.advance(caller.user_id, str(run_id), request_id(), failed=body.failed))

    @router.post(
        "/runs/{run_id}/scenes/{number}/regenerate",
        responses=answers(RunAnswer, *changed, "PROMPT_INVALID"),
        summary="Generate a scene again",
    )
    async def regenerate(
        run_id: UUID,
        number: Annotated[int, Path(ge=1, le=MOST_NUMBER, description="The scene's number.", examples=[2])],
        caller: CurrentCaller,
        body: RegenerateBody = PLAIN_REGENERATE,
    ) -> Response:
        """Queue one scene again; its image stays until the new one is finished. Scope `generate`."""
        caller.require(GENERATE)
        return json_response(await scenes.regenerate(caller.user_id, str(run_id), number, body.prompt, request_id()))


def _add_reads(router: APIRouter, scenes: Scenes) -> None:
    @router.get("/runs", responses=answers(RunPage, "REQUEST_INVALID"), summary="My runs")
    async def list_of(
        caller: CurrentCaller,
        before: Annotated[UUID | None, Query(description="The `next` of the previous page.")] = None,
        limit: Annotated[int, Query(ge=1, le=PAGE_LIMIT, description="The most runs to return.")] = 50,
    ) -> Response:
        """Newest first, page by page, without their scenes. Scope `read`."""
        caller.require(READ)
        # One more than is shown tells whether there is a next page.
        found = await scenes.page(caller.user_id, str(before) if before else None, limit + 1)
        shown = found[:limit]
        return json_response({"runs": shown, "next": shown[-1]["id"] if len(found) > limit else None})

    @router.get("/runs/{run_id}", responses=answers(RunAnswer, "NOT_FOUND", "REQUEST_INVALID"), summary="One run")
    async def one(run_id: UUID, caller: CurrentCaller) -> Response:
        """The run with the present state of its scenes. Scope `read`."""
        caller.require(READ)
        return json_response(await scenes.show(caller.user_id, str(run_id)))


def _add_endings(router: APIRouter, scenes: Scenes) -> None:
    @router.post(
        "/runs/{run_id}/cancel", responses=answers(RunAnswer, "NOT_FOUND", "REQUEST_INVALID"), summary="Cancel a run"
    )
    async def cancel(run_id: UUID, caller: CurrentCaller) -> Response:
        """Stop unfinished images and release their credits; finished images stay. Scope `generate`."""
        caller.require(GENERATE)
        return json_response(await scenes.cancel(caller.user_id, str(run_id)))

    refusals = problems(*CALLER, "NOT_FOUND", "REQUEST_INVALID", "STATE_CONFLICT")

    @router.delete("/runs/{run_id}", status_code=204, responses=refusals, summary="Delete a run")
    async def delete(run_id: UUID, caller: CurrentCaller) -> None:
        """Delete a run without unfinished images, with its images and their files. Scope `generate`."""
        caller.require(GENERATE)
        await scenes.database.run(delete_run, scenes.engine, caller.user_id, str(run_id))
