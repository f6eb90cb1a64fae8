"""`/v1/conversations`: each user's own conversations and messages, and their part of the snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from longtake.capability import Context, SnapshotPart
from longtake.db import Database, Transaction
from longtake.engine.engine import Engine
from longtake.http.paging import Cursor, read_cursor, write_cursor
from longtake.http.problem_schema import BODY, CALLER, problems
from longtake.http.strict_json import StrictRoute
from longtake.services.accounts.current_caller import CurrentCaller
from longtake.services.conversations.messages import add_message, list_messages
from longtake.services.conversations.schemas import (
    CONVERSATION_EXAMPLE,
    ConversationList,
    ConversationView,
    MessageList,
    MessageView,
    NewConversation,
    NewMessage,
    NewTitle,
)
from longtake.services.conversations.store import (
    PAGE_LIMIT,
    count_unread,
    create_conversation,
    get_conversation,
    list_conversations,
    mark_read,
    rename_conversation,
)

Limit = Annotated[int, Query(ge=1, le=PAGE_LIMIT, description="How many at most.")]
OlderMessages = Annotated[UUID | None, Query(description="Only messages older than this one.")]
OlderConversations = Annotated[str | None, Query(max_length=100, description="`next` of the page before.")]


def routers(context: Context, _engine: Engine) -> list[APIRouter]:
    """Return the routes of this process."""
    return [build_routes(context.database)]


def build_routes(database: Database) -> APIRouter:
    """Return the routes of conversations."""
    router = APIRouter(prefix="/v1/conversations", tags=["conversations"], route_class=StrictRoute)
    _add_reading(router, database)
    _add_changing(router, database)
    return router


def _add_reading(router: APIRouter, database: Database) -> None:
    @router.get("", summary="My conversations", responses=problems(*CALLER, "REQUEST_INVALID", "CURSOR_INVALID"))
    async def list_mine(
        caller: CurrentCaller, before: OlderConversations = None, limit: Limit = 50
    ) -> ConversationList:
        """Return conversations, the last changed first. Scope `read`."""
        caller.require("read")
        cursor = None if before is None else read_cursor(before)
        rows, following = await database.read(list_conversations, caller.user_id, cursor, limit, as_user=caller.user_id)
        views = [ConversationView.model_validate(row) for row in rows]
        return ConversationList(conversations=views, next=None if following is None else write_cursor(following))

    @router.get(
        "/{conversation_id}", summary="One conversation", responses=problems(*CALLER, "REQUEST_INVALID", "NOT_FOUND")
    )
    async def show(conversation_id: UUID, caller: CurrentCaller) -> ConversationView:
        """Return one of your conversations. Scope `read`."""
        caller.require("read")
        user = caller.user_id
        return ConversationView.model_validate(
            await database.read(get_conversation, user, str(conversation_id), as_user=user)
        )

    @router.get(
        "/{conversation_id}/messages",
        summary="Messages of a conversation",
        responses=problems(*CALLER, "REQUEST_INVALID", "NOT_FOUND"),
    )
    async def show_messages(
        conversation_id: UUID, caller: CurrentCaller, before: OlderMessages = None, limit: Limit = 50
    ) -> MessageList:
        """Return messages, newest first. Scope `read`."""
        caller.require("read")
        user, cursor = caller.user_id, None if before is None else str(before)
        rows, following = await database.read(list_messages, user, str(conversation_id), cursor, limit, as_user=user)
        return MessageList(messages=[MessageView.model_validate(row) for row in rows], next=following)


def _add_changing(router: APIRouter, database: Database) -> None:
    @router.post(
        "", status_code=201, summary="Begin a conversation", responses=problems(*CALLER, *BODY, "TEXT_INVALID")
    )
    async def begin(order: NewConversation, caller: CurrentCaller) -> ConversationView:
        """Create an empty conversation. Scope `generate`."""
        caller.require("generate")
        return ConversationView.model_validate(await database.run(create_conversation, caller.user_id, order.title))

    @router.patch(
        "/{conversation_id}",
        summary="Rename a conversation",
        responses=problems(*CALLER, *BODY, "TEXT_INVALID", "NOT_FOUND"),
    )
    async def rename(conversation_id: UUID, order: NewTitle, caller: CurrentCaller) -> ConversationView:
        """Change the title of a conversation. Scope `generate`."""
        caller.require("generate")
        return ConversationView.model_validate(
            await database.run(rename_conversation, caller.user_id, str(conversation_id), order.title)
        )

    @router.post(
        "/{conversation_id}/messages",
        status_code=201,
        summary="Say something",
        responses=problems(*CALLER, *BODY, "TEXT_INVALID", "NOT_FOUND"),
    )
    async def say(conversation_id: UUID, order: NewMessage, caller: CurrentCaller) -> MessageView:
        """Add a message. It starts no task. Scope `generate`."""
        caller.require("generate")
        return MessageView.model_validate(
            await database.run(add_message, caller.user_id, str(conversation_id), order.text)
        )

    @router.post(
        "/{conversation_id}/read",
        summary="Mark a conversation as read",
        responses=problems(*CALLER, "REQUEST_INVALID", "NOT_FOUND"),
    )
    async def read(conversation_id: UUID, caller: CurrentCaller) -> ConversationView:
        """Mark all messages as read. Scope `generate`."""
        caller.require("generate")
        return ConversationView.model_validate(await database.run(mark_read, caller.user_id, str(conversation_id)))


CONVERSATIONS = 50


class ConversationSnapshot(BaseModel):
    """The members about conversations."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"conversations": [CONVERSATION_EXAMPLE], "conversations_next": None, "unread": 1}]
        }
    )

    conversations: list[ConversationView] = Field(description="The last changed first.")
    conversations_next: str | None = Field(description="`before` for the rest of them; null when there is none.")
    unread: int = Field(description="Answers not read yet, over all conversations.")


@dataclass(frozen=True, slots=True)
class SeenConversations:
    """A user's conversations as they were in one moment."""

    shown: list[dict[str, Any]]
    next: Cursor | None
    unread: int


def part(_context: Context) -> SnapshotPart[SeenConversations]:
    """Return the part."""
    return SnapshotPart(schema=ConversationSnapshot, read=_read, show=_show)


def _read(tx: Transaction, user_id: str) -> SeenConversations:
    return SeenConversations(*list_conversations(tx, user_id, None, CONVERSATIONS), count_unread(tx, user_id))


async def _show(seen: SeenConversations) -> dict[str, Any]:
    return {
        "conversations": [ConversationView.model_validate(one).model_dump(mode="json") for one in seen.shown],
        "conversations_next": None if seen.next is None else write_cursor(seen.next),
        "unread": seen.unread,
    }
