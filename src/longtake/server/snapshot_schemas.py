"""The snapshot as HTTP describes it, with an example; /openapi.json is made of it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from longtake.capabilities.generation.schemas import COMPLETED_EXAMPLE, MOMENT, TASK_EXAMPLE, TaskAnswer
from longtake.services.conversations.schemas import CONVERSATION_EXAMPLE, ConversationView
from longtake.services.credits.schemas import BalanceView

_SNAPSHOT: dict[str, Any] = {
    "cursor": "8123.55",
    "at": MOMENT,
    "user_id": "ada",
    "tasks": [TASK_EXAMPLE],
    "tasks_more": False,
    "recent": [COMPLETED_EXAMPLE],
    "conversations": [CONVERSATION_EXAMPLE],
    "conversations_next": None,
    "unread": 1,
    "credits": {"available": 100, "held": 4},
    "server_time": MOMENT,
}


class SnapshotAnswer(BaseModel):
    """Everything a page shows at one moment. `GET /v1/events?cursor=…` sends the changes after it."""

    model_config = ConfigDict(json_schema_extra={"examples": [_SNAPSHOT]})

    cursor: str = Field(description="Where the stream of events goes on.")
    at: str = Field(description="All until this moment is in it, by the database's clock.")
    user_id: str
    tasks: list[TaskAnswer] = Field(description="All unfinished ones, oldest first.")
    tasks_more: bool = Field(description="There are more unfinished tasks than are shown.")
    recent: list[TaskAnswer] = Field(description="The last ones that ended, newest first.")
    conversations: list[ConversationView] = Field(description="The last changed first.")
    conversations_next: str | None = Field(description="`before` for the rest of them; null when there is none.")
    unread: int = Field(description="Answers not read yet, over all conversations.")
    credits: BalanceView
    server_time: str = Field(description="What to measure a task's progress against.")
