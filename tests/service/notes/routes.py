"""The route of notes, and their part of the snapshot. Only servers load it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict
from sqlalchemy import insert, select

from longtake.capability import Context, SnapshotPart
from longtake.clock import new_id
from longtake.db import Transaction
from longtake.engine.engine import Engine
from longtake.services.accounts.current_caller import CurrentCaller
from tests.service.notes.capability import COUNT, notes


class NoteBody(BaseModel):
    text: str


class NoteView(BaseModel):
    id: str
    text: str
    words: int | None


class NoteSnapshot(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"notes": []}]})

    notes: list[NoteView]


def routers(_context: Context, engine: Engine) -> list[APIRouter]:
    router = APIRouter(prefix="/v1")

    @router.post("/notes", status_code=201)
    async def write(body: NoteBody, caller: CurrentCaller) -> NoteView:
        note = NoteView(id=new_id(), text=body.text, words=None)

        def keep(tx: Transaction) -> None:
            tx.execute(insert(notes).values(id=note.id, user_id=caller.user_id, text=note.text))
            engine.enqueue(tx, COUNT, key=note.id, subject=note.id)

        await engine.database.run(keep)
        return note

    return [router]


def part(_context: Context) -> SnapshotPart[list[dict[str, Any]]]:
    return SnapshotPart(schema=NoteSnapshot, read=_read, show=_show)


def _read(tx: Transaction, user_id: str) -> list[dict[str, Any]]:
    rows = tx.execute(select(notes).where(notes.c.user_id == user_id).order_by(notes.c.id))
    return [{"id": row.id, "text": row.text, "words": row.words} for row in rows]


async def _show(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"notes": found}
