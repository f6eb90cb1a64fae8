"""Everything a page shows at one moment, in one request; the event stream continues from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Response
from sqlalchemy import select

from longtake.capabilities.generation.queries import PENDING_LIMIT, TaskFilter, list_tasks, unfinished_tasks
from longtake.capabilities.generation.service import TaskViews
from longtake.capabilities.generation.tables import Task
from longtake.clock import iso_timestamp
from longtake.db import Database, Transaction
from longtake.db.dialects import NOW
from longtake.http.paging import Cursor, write_cursor
from longtake.http.problem_schema import CALLER, problems
from longtake.server.snapshot_schemas import SnapshotAnswer
from longtake.services.accounts.current_caller import Caller, current_caller
from longtake.services.assets import Asset, assets_of_tasks
from longtake.services.conversations.schemas import ConversationView
from longtake.services.conversations.store import count_unread, list_conversations
from longtake.services.credits import Balance, balance
from longtake.services.live.event_log import current_cursor

RECENT = 20
CONVERSATIONS = 50
ENDED = TaskFilter(status=("completed", "failed", "cancelled"))


@dataclass(frozen=True, slots=True)
class Beginning:
    """The moment before a snapshot."""

    at: datetime
    cursor: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A user's rows as they were in one moment."""

    unfinished: Sequence[Task]
    recent: Sequence[Task]
    results: Mapping[str, Sequence[Asset]]
    conversations: Sequence[Mapping[str, Any]]
    more_conversations: Cursor | None
    unread: int
    credits: Balance


def take_snapshot(tx: Transaction, user_id: str) -> Snapshot:
    """Read it all in one transaction, which sees one moment."""
    recent = list_tasks(tx, user_id, ENDED, None, RECENT)
    completed = [task.id for task in recent if task.status == "completed"]
    conversations, following = list_conversations(tx, user_id, None, CONVERSATIONS)
    return Snapshot(
        unfinished=unfinished_tasks(tx, user_id),
        recent=recent,
        results=assets_of_tasks(tx, completed, user_id) if completed else {},
        conversations=conversations,
        more_conversations=following,
        unread=count_unread(tx, user_id),
        credits=balance(tx, user_id),
    )


def build_routes(database: Database, views: TaskViews) -> APIRouter:
    """Return the route of the snapshot."""
    router = APIRouter(prefix="/v1", tags=["live"])
    answers: dict[int | str, dict[str, Any]] = {200: {"model": SnapshotAnswer}, **problems(*CALLER)}

    @router.get("/snapshot", responses=answers, summary="All that a page shows")
    async def snapshot(caller: Annotated[Caller, Depends(current_caller)]) -> Response:
        """Unfinished and recent tasks, conversations, unread and credits of one moment. Scope `read`."""
        caller.require("read")
        begun = await database.read(begin)
        found = await database.read(take_snapshot, caller.user_id, as_user=caller.user_id)
        shown = await show_snapshot(views, found, begun, caller.user_id)
        return Response(orjson.dumps(shown), media_type="application/json")

    return router


async def show_snapshot(views: TaskViews, found: Snapshot, begun: Beginning, user_id: str) -> dict[str, Any]:
    """Return a snapshot as callers see it. Looking counts as watching."""
    following = found.more_conversations
    return {
        "cursor": begun.cursor,
        "at": iso_timestamp(begun.at),
        "user_id": user_id,
        "tasks": await views.show(found.unfinished[:PENDING_LIMIT], {}),
        "tasks_more": len(found.unfinished) > PENDING_LIMIT,
        "recent": await views.show(found.recent, found.results),
        "conversations": [ConversationView.model_validate(one).model_dump(mode="json") for one in found.conversations],
        "conversations_next": None if following is None else write_cursor(following),
        "unread": found.unread,
        "credits": {"available": found.credits.available, "held": found.credits.held},
        "server_time": iso_timestamp(begun.at),
    }


def begin(tx: Transaction) -> Beginning:
    """Return the time by the clock that tasks' times are of, and the cursor.

    Read before the rest: what the snapshot misses is an event after the cursor.
    """
    return Beginning(tx.execute(select(NOW)).scalar_one(), current_cursor(tx))
