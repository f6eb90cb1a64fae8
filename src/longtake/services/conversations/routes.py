"""`/v1/conversations`: each user's own conversations and messages, and their part of the snapshot."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from longtake.capability import Context, SnapshotPart
from longtake.db import Database, Transaction
from longtake.engine.engine import Engine
from longtake.http.paging import read_cursor, write_cursor
from longtake.http.problem_schema import BODY, CALLER, problems
from longtake.http.strict_json import StrictRoute
from longtake.services.accounts.current_caller import CurrentCaller
from longtake.services.conversations.messages import TEXT_LIMIT, add_message, list_messages
from longtake.services.conversations.store import (
    PAGE_LIMIT,
    TITLE_LIMIT,
    count_unread,
    create_conversation,
    get_conversation,
    list_conversations,
    mark_read,
    rename_conversation,
)

Title = Annotated[str, Field(max_length=TITLE_LIMIT)]
Text = Annotated[str, Field(min_length=1, max_length=TEXT_LIMIT)]

_CONVERSATION = "0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"
_MESSAGE = "0199c1f2-9d11-7b0e-8f3a-5b1f0e9d2c44"
_MOMENT = "2026-01-01T12:00:00Z"


CONVERSATION_EXAMPLE: dict[str, Any] = {
    "id": _CONVERSATION,
    "title": "Lighthouses",
    "unread": 1,
    "created_at": _MOMENT,
    "changed_at": _MOMENT,
}
_SHOWN_MESSAGE: dict[str, Any] = {
    "id": _MESSAGE,
    "conversation_id": _CONVERSATION,
    "role": "user",
    "state": "completed",
    "text": "A lighthouse in a storm",
    "task_id": None,
    "data": None,
    "created_at": _MOMENT,
    "changed_at": _MOMENT,
}


class ConversationView(BaseModel):
    """A conversation; `unread` counts answers that came since it was last read."""

    model_config = ConfigDict(json_schema_extra={"examples": [CONVERSATION_EXAMPLE]})

    id: str
    title: str
    unread: int
    created_at: datetime
    changed_at: datetime


class ConversationList(BaseModel):
    """Conversations, the last changed first; `next` is the `before` of the next page."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"conversations": [CONVERSATION_EXAMPLE], "next": f"1767268800000000_{_CONVERSATION}"}]
        }
    )

    conversations: list[ConversationView]
    next: str | None


class NewConversation(BaseModel):
    """The title of a new conversation; it may be empty."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"title": "Lighthouses"}]})

    title: Title = ""


class NewTitle(BaseModel):
    """The new title of a conversation."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"title": "Lighthouses at night"}]})

    title: Title


class MessageView(BaseModel):
    """A message. An unfinished answer has the state `placeholder`; `data` has its parameters and cost."""

    model_config = ConfigDict(json_schema_extra={"examples": [_SHOWN_MESSAGE]})

    id: str
    conversation_id: str
    role: Literal["user", "assistant"]
    state: Literal["placeholder", "completed", "failed", "cancelled"]
    text: str
    task_id: str | None
    data: dict[str, Any] | None
    created_at: datetime
    changed_at: datetime


class MessageList(BaseModel):
    """Messages, newest first; `next` is the `before` of the next page."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"messages": [_SHOWN_MESSAGE], "next": _MESSAGE}]})

    messages: list[MessageView]
    next: str | None


class NewMessage(BaseModel):
    """A message of the user."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"text": "Something with more sea."}]})

    text: Text


FOUND = (*CALLER, "REQUEST_INVALID", "NOT_FOUND")
WRITTEN = (*CALLER, *BODY, "TEXT_INVALID")

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

    @router.get("/{conversation_id}", summary="One conversation", responses=problems(*FOUND))
    async def show(conversation_id: UUID, caller: CurrentCaller) -> ConversationView:
        """Return one of your conversations. Scope `read`."""
        caller.require("read")
        row = await database.read(get_conversation, caller.user_id, str(conversation_id), as_user=caller.user_id)
        return ConversationView.model_validate(row)

    @router.get("/{conversation_id}/messages", summary="Messages of a conversation", responses=problems(*FOUND))
    async def show_messages(
        conversation_id: UUID, caller: CurrentCaller, before: OlderMessages = None, limit: Limit = 50
    ) -> MessageList:
        """Return messages, newest first. Scope `read`."""
        caller.require("read")
        user, cursor = caller.user_id, None if before is None else str(before)
        rows, following = await database.read(list_messages, user, str(conversation_id), cursor, limit, as_user=user)
        return MessageList(messages=[MessageView.model_validate(row) for row in rows], next=following)


def _add_changing(router: APIRouter, database: Database) -> None:
    @router.post("", status_code=201, summary="Begin a conversation", responses=problems(*WRITTEN))
    async def begin(order: NewConversation, caller: CurrentCaller) -> ConversationView:
        """Create an empty conversation. Scope `generate`."""
        caller.require("generate")
        return ConversationView.model_validate(await database.run(create_conversation, caller.user_id, order.title))

    @router.patch("/{conversation_id}", summary="Rename a conversation", responses=problems(*WRITTEN, "NOT_FOUND"))
    async def rename(conversation_id: UUID, order: NewTitle, caller: CurrentCaller) -> ConversationView:
        """Change the title of a conversation. Scope `generate`."""
        caller.require("generate")
        row = await database.run(rename_conversation, caller.user_id, str(conversation_id), order.title)
        return ConversationView.model_validate(row)

    @router.post(
        "/{conversation_id}/messages",
        status_code=201,
        summary="Say something",
        responses=problems(*WRITTEN, "NOT_FOUND"),
    )
    async def say(conversation_id: UUID, order: NewMessage, caller: CurrentCaller) -> MessageView:
        """Add a message. It starts no task. Scope `generate`."""
        caller.require("generate")
        row = await database.run(add_message, caller.user_id, str(conversation_id), order.text)
        return MessageView.model_validate(row)

    @router.post("/{conversation_id}/read", summary="Mark a conversation as read", responses=problems(*FOUND))
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


def part(_context: Context) -> SnapshotPart[ConversationSnapshot]:
    """Return the part."""
    return SnapshotPart(schema=ConversationSnapshot, read=_read, show=_show)


def _read(tx: Transaction, user_id: str) -> ConversationSnapshot:
    rows, following = list_conversations(tx, user_id, None, CONVERSATIONS)
    return ConversationSnapshot(
        conversations=[ConversationView.model_validate(row) for row in rows],
        conversations_next=None if following is None else write_cursor(following),
        unread=count_unread(tx, user_id),
    )


async def _show(seen: ConversationSnapshot) -> dict[str, Any]:
    return seen.model_dump(mode="json")
