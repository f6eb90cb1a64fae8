"""The routes of generation: tasks, models, callbacks, deletion of conversations; and its part of the snapshot."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from uuid import UUID

import orjson
from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from longtake.capabilities.generation.errors import InvalidPreference
from longtake.capabilities.generation.removal import delete_conversation, delete_task
from longtake.capabilities.generation.schemas import (
    CALLBACK,
    COMPLETED_EXAMPLE,
    MODEL_NAME,
    STATUS,
    TASK_EXAMPLE,
    GenerateBody,
    ModelList,
    PendingTasks,
    Received,
    TaskAnswer,
    TaskPage,
)
from longtake.capabilities.generation.service import Generation, TaskViews
from longtake.capabilities.generation.submissions import check_request
from longtake.capabilities.generation.tables import PENDING_LIMIT, Task, TaskFilter, list_tasks, unfinished_tasks
from longtake.capability import Context, SnapshotPart
from longtake.db import Transaction
from longtake.engine.engine import Engine
from longtake.http.idempotency import Answer, keyed
from longtake.http.problem_schema import BODY, CALLER, answers, problems
from longtake.http.strict_json import StrictRoute, json_response
from longtake.logs import request_id
from longtake.services.accounts.current_caller import GENERATE, READ, Caller, current_caller
from longtake.services.assets import Asset, assets_of_tasks

WAIT_LONGEST = 60
PAGE_LIMIT = 200
REFERENCE_LIMIT = 100
_WAIT = re.compile(r"(?:^|[,;\s])wait(?:\s*=\s*(?P<seconds>[^,;\s]*))?(?:$|[,;\s])", re.IGNORECASE)

_REFUSED = (
    "MODEL_UNKNOWN",
    "PARAMETER_UNKNOWN",
    "PARAMETER_INVALID",
    "PROMPT_INVALID",
    "REFERENCES_INVALID",
    "PROVIDER_NOT_CONFIGURED",
    "PUBLIC_URL_MISSING",
    "INSUFFICIENT_CREDITS",
    "NOT_FOUND",
    "TASKS_TOO_MANY",
    "IDEMPOTENCY_KEY_INVALID",
    "IDEMPOTENCY_KEY_REUSED",
    "IDEMPOTENCY_KEY_IN_USE",
)

Who = Annotated[Caller, Depends(current_caller)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        description="A repeat with the same key and body gets the first answer again; 1 to 255 characters.",
        examples=["fox-1"],
    ),
]
Prefer = Annotated[
    str | None,
    Header(
        description="`wait=n`: answer when the task has ended, at most after n seconds (1 to 60).", examples=["wait=30"]
    ),
]


def routers(context: Context, engine: Engine) -> list[APIRouter]:
    """Return the routes of this process."""
    generation = Generation(context, engine)
    parts = (_submit_routes, _read_routes, _change_routes, _callback_routes, _deletion_routes)
    return [part(generation) for part in parts]


def _submit_routes(generation: Generation) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["generate"], route_class=StrictRoute)
    submitted: dict[int | str, dict[str, Any]] = {
        200: {"model": TaskAnswer, "description": "The task ended while the request waited"},
        202: {"model": TaskAnswer, "description": "The task is stored and runs in the background"},
        **problems(*CALLER, *BODY, *_REFUSED, "PREFERENCE_INVALID"),
    }

    @router.post("/images/generate", status_code=202, responses=submitted, summary="Make an image")
    async def generate_image(
        body: GenerateBody, caller: Who, idempotency_key: IdempotencyKey = None, prefer: Prefer = None
    ) -> Response:
        """Hold the price, store the task and answer. The image is made whether or not the caller waits."""
        return await submit(body, caller, "image", idempotency_key, prefer)

    @router.post("/videos/generate", status_code=202, responses=submitted, summary="Make a video")
    async def generate_video(
        body: GenerateBody, caller: Who, idempotency_key: IdempotencyKey = None, prefer: Prefer = None
    ) -> Response:
        """Hold the price, store the task and answer. The video is made whether or not the caller waits."""
        return await submit(body, caller, "video", idempotency_key, prefer)

    async def submit(
        body: GenerateBody,
        caller: Caller,
        type: Literal["image", "video"],  # noqa: A002 - the domain's word
        key: str | None,
        prefer: str | None,
    ) -> Response:
        caller.require(GENERATE)
        wait = WAIT_LONGEST if body.wait_for_result else wait_of(prefer)
        model = generation.offered.find(body.model, type)
        conversation = str(body.conversation_id) if body.conversation_id else None
        references = [str(one) for one in body.references]
        request = check_request(model, body.prompt, body.parameters, references, conversation)
        once = keyed(caller.user_id, f"{type}s/generate", key, body.model_dump(mode="json"))
        answer = await generation.submit(caller.user_id, request, once, request_id())
        return await _answered(generation, caller, answer, wait)

    return router


def _read_routes(generation: Generation) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["tasks"])

    @router.get("/tasks/pending", responses=answers(PendingTasks), summary="My unfinished tasks")
    async def pending(caller: Who) -> Response:
        """All unfinished tasks, oldest first, at most 500; `more` says that there are more."""
        caller.require(READ)
        found = await generation.pending(caller.user_id)
        return json_response({"tasks": found[:PENDING_LIMIT], "more": len(found) > PENDING_LIMIT})

    @router.get("/tasks", responses=answers(TaskPage), summary="My tasks")
    async def list_of(
        caller: Who,
        status: Annotated[list[STATUS] | None, Query(description="One or several.")] = None,
        type: Annotated[Literal["image", "video"] | None, Query(description="What the task makes.")] = None,  # noqa: A002 - the parameter's name
        model: Annotated[str | None, Query(pattern=MODEL_NAME, description="A model's name.")] = None,
        conversation_id: Annotated[UUID | None, Query(description="Only tasks of this conversation.")] = None,
        before: Annotated[UUID | None, Query(description="`next` of the previous page.")] = None,
        limit: Annotated[int, Query(ge=1, le=PAGE_LIMIT, description="How many at most.")] = 50,
    ) -> Response:
        """Newest first, page by page."""
        caller.require(READ)
        conversation = str(conversation_id) if conversation_id else None
        matching = TaskFilter(tuple(status or ()), type, model, conversation)
        # One more than is shown tells whether there is a page after.
        found = await generation.page(caller.user_id, matching, str(before) if before else None, limit + 1)
        shown = found[:limit]
        return json_response({"tasks": shown, "next": shown[-1]["id"] if len(found) > limit else None})

    @router.get(
        "/tasks/{task_id}",
        responses=answers(TaskAnswer, "NOT_FOUND", "REQUEST_INVALID", "PREFERENCE_INVALID"),
        summary="One task",
    )
    async def one(task_id: UUID, caller: Who, prefer: Prefer = None) -> Response:
        """The task as it is now. Reading an unfinished task makes the server ask its provider sooner."""
        caller.require(READ)
        return json_response(await generation.show(caller.user_id, str(task_id), wait_of(prefer)))

    @router.get("/models", responses=answers(ModelList), summary="Models", tags=["generate"])
    async def models(caller: Who) -> Response:
        """All models, with their limits, price and recent duration."""
        caller.require(READ)
        return json_response({"models": await generation.models()})

    return router


def _change_routes(generation: Generation) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["tasks"])

    changed = answers(TaskAnswer, "NOT_FOUND", "STATE_CONFLICT")

    @router.post("/tasks/{task_id}/cancel", responses=changed, summary="Cancel a task")
    async def cancel(task_id: UUID, caller: Who) -> Response:
        """End the task now and give its credits back. A repeat changes nothing; an ended task is refused (409)."""
        caller.require(GENERATE)
        return json_response(await generation.cancel(caller.user_id, str(task_id)))

    again = {202: {"model": TaskAnswer}} | problems(*CALLER, *_REFUSED, "REQUEST_INVALID", "STATE_CONFLICT")

    @router.post("/tasks/{task_id}/retry", status_code=202, responses=again, summary="Try a task again")
    async def retry(task_id: UUID, caller: Who, idempotency_key: IdempotencyKey = None) -> Response:
        """Make a new task with the same request; the old task stays as it is."""
        caller.require(GENERATE)
        once = keyed(caller.user_id, "tasks/retry", idempotency_key, {"task_id": str(task_id)})
        answer = await generation.retry(caller.user_id, str(task_id), once, request_id())
        return await _answered(generation, caller, answer, 0)

    @router.post("/tasks/{task_id}/retry-save", responses=changed, summary="Save results again")
    async def retry_save(task_id: UUID, caller: Who) -> Response:
        """Try again to copy the results of a completed task to our storage."""
        caller.require(GENERATE)
        return json_response(await generation.retry_save(caller.user_id, str(task_id)))

    return router


def _callback_routes(generation: Generation) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["callbacks"])
    received = {200: {"model": Received}} | problems("NOT_FOUND", "BODY_TOO_LARGE", "DATABASE_UNAVAILABLE")

    @router.post(
        "/callbacks/{provider}",
        responses=received,
        summary="A provider's callback",
        openapi_extra={"requestBody": {"content": {"application/json": {"example": CALLBACK, "schema": {}}}}},
    )
    async def callback(
        provider: Annotated[str, Path(description="The provider that calls.", examples=["kie"])],
        request: Request,
        reference: Annotated[
            str, Query(max_length=REFERENCE_LIMIT, description="The reference that the provider got.")
        ],
    ) -> Response:
        """Providers call this when a task changes. It is only a hint: the server then asks the provider itself."""
        try:
            body = orjson.loads(await request.body())
        except orjson.JSONDecodeError:
            body = None
        await generation.callback(provider, reference, body, request.headers)
        return json_response({"received": True})

    return router


def _deletion_routes(generation: Generation) -> APIRouter:
    router = APIRouter(prefix="/v1")
    database, engine = generation.database, generation.engine
    refusals: dict[int | str, dict[str, Any]] = problems(*CALLER, "REQUEST_INVALID", "NOT_FOUND", "STATE_CONFLICT")

    @router.delete("/tasks/{task_id}", status_code=204, responses=refusals, summary="Delete a task", tags=["tasks"])
    async def remove_task(task_id: UUID, caller: Who) -> None:
        """Delete a task that has ended, with its messages, results and files. Scope `generate`."""
        caller.require(GENERATE)
        await database.run(delete_task, engine, caller.user_id, str(task_id))

    @router.delete(
        "/conversations/{conversation_id}",
        status_code=204,
        responses=refusals,
        summary="Delete a conversation",
        tags=["conversations"],
    )
    async def remove_conversation(conversation_id: UUID, caller: Who) -> None:
        """Delete a conversation with its messages and tasks; all tasks must have ended. Scope `generate`."""
        caller.require(GENERATE)
        await database.run(delete_conversation, engine, caller.user_id, str(conversation_id))

    return router


async def _answered(generation: Generation, caller: Caller, answer: Answer, wait: float) -> Response:
    task_id = answer.body["id"]
    headers = answer.headers(f"/v1/tasks/{task_id}")
    if wait <= 0:
        return json_response(answer.body, answer.status, headers)
    shown = await generation.show(caller.user_id, task_id, wait)
    return json_response(shown, 200 if shown["ended_at"] else answer.status, headers)


def wait_of(prefer: str | None) -> float:
    """Return for how many seconds the caller waits: `Prefer: wait=n`, or the longest wait for a plain `wait`."""
    match = _WAIT.search(prefer or "")
    if match is None:
        return 0
    seconds = match["seconds"]
    if seconds is None:
        return WAIT_LONGEST
    if not re.fullmatch(r"[0-9]{1,4}", seconds) or not 1 <= int(seconds) <= WAIT_LONGEST:
        raise InvalidPreference(f"`Prefer: wait=n` takes 1 to {WAIT_LONGEST} seconds.", longest=WAIT_LONGEST)
    return int(seconds)


RECENT = 20
ENDED = TaskFilter(status=("completed", "failed", "cancelled"))


class TaskSnapshot(BaseModel):
    """The members about tasks."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"tasks": [TASK_EXAMPLE], "tasks_more": False, "recent": [COMPLETED_EXAMPLE]}]}
    )

    tasks: list[TaskAnswer] = Field(description="All unfinished ones, oldest first.")
    tasks_more: bool = Field(description="There are more unfinished tasks than are shown.")
    recent: list[TaskAnswer] = Field(description="The last ones that ended, newest first.")


#: A user's unfinished tasks, recent ones, and the results of these, as they were in one moment.
SeenTasks = tuple[Sequence[Task], Sequence[Task], Mapping[str, Sequence[Asset]]]


def part(context: Context) -> SnapshotPart[SeenTasks]:
    """Return the part. Looking counts as watching."""
    views = context.get(TaskViews)

    async def show(seen: SeenTasks) -> dict[str, Any]:
        unfinished, recent, results = seen
        return {
            "tasks": await views.show(unfinished[:PENDING_LIMIT], {}),
            "tasks_more": len(unfinished) > PENDING_LIMIT,
            "recent": await views.show(recent, results),
        }

    return SnapshotPart(schema=TaskSnapshot, read=read_tasks, show=show)


def read_tasks(tx: Transaction, user_id: str) -> SeenTasks:
    """Return the user's unfinished and recent tasks."""
    recent = list_tasks(tx, user_id, ENDED, None, RECENT)
    completed = [task.id for task in recent if task.status == "completed"]
    results = assets_of_tasks(tx, completed, user_id) if completed else {}
    return unfinished_tasks(tx, user_id), recent, results
