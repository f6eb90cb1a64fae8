"""Requests and responses of the conversation routes."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from longtake.services.conversations.messages import TEXT_LIMIT
from longtake.services.conversations.store import TITLE_LIMIT

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
