"""The routes that delete tasks, conversations and accounts."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field

from longtake.capabilities.generation.account_removal import begin_deletion
from longtake.capabilities.generation.removal import delete_conversation, delete_task
from longtake.capabilities.generation.service import Generation
from longtake.errors import Forbidden
from longtake.http.problem_schema import CALLER, problems
from longtake.services.accounts.current_caller import GENERATE, Caller, current_caller

Who = Annotated[Caller, Depends(current_caller)]


class AccountLeft(BaseModel):
    """What is answered to a user who leaves."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"deleting": True}]})

    deleting: bool = Field(description="Keys and webhooks are gone; the rest goes within moments, also without you.")


def build_routes(generation: Generation) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix="/v1")
    database, engine = generation.database, generation.engine
    refusals: dict[int | str, dict[str, Any]] = problems(*CALLER, "REQUEST_INVALID", "NOT_FOUND", "STATE_CONFLICT")

    @router.delete("/tasks/{task_id}", status_code=204, responses=refusals, summary="Delete a task", tags=["tasks"])
    async def remove_task(task_id: UUID, caller: Who) -> None:
        """Delete a task that has ended, with its messages, its results and their files. Scope `generate`."""
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
        """Delete a conversation with its messages and its tasks, which must all have ended. Scope `generate`."""
        caller.require(GENERATE)
        await database.run(delete_conversation, engine, caller.user_id, str(conversation_id))

    @router.delete(
        "/account", status_code=202, responses=problems(*CALLER), summary="Delete my account", tags=["account"]
    )
    async def leave(caller: Who) -> AccountLeft:
        """Delete all that is mine; tasks under way are cancelled. By a token, not by an API key. Scope `generate`."""
        caller.require(GENERATE)
        if caller.key_id is not None and caller.role != "service":
            raise Forbidden("An API key cannot delete the account it belongs to.", hint="Use a token.")
        await database.run(begin_deletion, engine, caller.user_id)
        return AccountLeft(deleting=True)

    return router
