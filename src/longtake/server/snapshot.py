"""Everything a page shows at one moment, in one request; the event stream continues from there.

What it contains comes from packages: the function `part` in their `routes.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson
from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field, create_model
from sqlalchemy import select

from longtake.capability import SnapshotPart
from longtake.clock import iso_timestamp
from longtake.db import Database, Transaction
from longtake.db.dialects import NOW
from longtake.http.problem_schema import CALLER, problems
from longtake.services.accounts.current_caller import READ, CurrentCaller
from longtake.services.live.event_log import current_cursor

_MOMENT = "2026-01-01T12:00:00Z"


def build_routes(database: Database, parts: Sequence[SnapshotPart[Any]]) -> APIRouter:
    """Return the route of the snapshot, with the members of these parts."""
    router = APIRouter(prefix="/v1", tags=["live"])
    answers: dict[int | str, dict[str, Any]] = {200: {"model": _answer(parts)}, **problems(*CALLER)}

    @router.get("/snapshot", responses=answers, summary="All that a page shows")
    async def snapshot(caller: CurrentCaller) -> Response:
        """Unfinished and recent tasks, conversations, unread and credits of one moment. Scope `read`."""
        caller.require(READ)
        begun_at, cursor = await database.read(begin)
        found = await database.read(read_parts, parts, caller.user_id, as_user=caller.user_id)
        at = iso_timestamp(begun_at)
        shown = {"cursor": cursor, "at": at, "user_id": caller.user_id, "server_time": at}
        for part, rows in zip(parts, found, strict=True):
            shown |= await part.show(rows)
        return Response(orjson.dumps(shown), media_type="application/json")

    return router


def begin(tx: Transaction) -> tuple[datetime, str]:
    """Return the database's time, which tasks' times are by, and the cursor.

    Read before the rest: what the snapshot misses is an event after the cursor.
    """
    return tx.execute(select(NOW)).scalar_one(), current_cursor(tx)


def read_parts(tx: Transaction, parts: Sequence[SnapshotPart[Any]], user_id: str) -> list[Any]:
    """Read them all in one transaction, which sees one moment."""
    return [part.read(tx, user_id) for part in parts]


def _answer(parts: Sequence[SnapshotPart[Any]]) -> type[BaseModel]:
    example: dict[str, Any] = {"cursor": "8123.55", "at": _MOMENT, "user_id": "ada", "server_time": _MOMENT}
    fields: dict[str, Any] = {}
    for part in parts:
        extra: Any = part.schema.model_config.get("json_schema_extra")
        example |= extra["examples"][0]
        fields |= {name: (field.annotation, field) for name, field in part.schema.model_fields.items()}

    class SnapshotAnswer(BaseModel):
        """Everything a page shows at one moment. `GET /v1/events?cursor=…` sends the changes after it."""

        model_config = ConfigDict(json_schema_extra={"examples": [example]})

        cursor: str = Field(description="Where the stream of events goes on.")
        at: str = Field(description="All until this moment is in it, by the database's clock.")
        user_id: str
        server_time: str = Field(description="What to measure a task's progress against.")

    return create_model("SnapshotAnswer", __base__=SnapshotAnswer, __doc__=SnapshotAnswer.__doc__, **fields)
