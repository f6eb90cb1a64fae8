"""Conversations in the snapshot: those that changed last, and the number of unread answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from longtake.capability import Context, SnapshotPart
from longtake.db import Transaction
from longtake.http.paging import Cursor, write_cursor
from longtake.services.conversations.schemas import CONVERSATION_EXAMPLE, ConversationView
from longtake.services.conversations.store import count_unread, list_conversations

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
