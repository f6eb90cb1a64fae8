"""What notes register, and their job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Column, Integer, MetaData, Table, Text, delete, select, update

from longtake import Done, Job, JobKind, Lane, Outcome, Settlement, Transaction
from longtake.capability import AccountRemover, Capability, Context
from longtake.db.dialects import Identifier
from longtake.engine.engine import Engine
from longtake.engine.events import append_event

COUNT = "notes.count"
notes = Table(
    "notes",
    MetaData(),
    Column("id", Identifier, primary_key=True),
    Column("user_id", Text),
    Column("text", Text),
    Column("words", Integer),
)


def capability(context: Context) -> Capability:
    async def count(job: Job) -> Outcome:
        text = await context.database.read(_text, str(job.key))
        return Done(data=len(text.split()))

    return Capability(
        kinds=[JobKind(COUNT, count, settle, lane="notes")],
        lanes=[Lane("notes", max_running=1)],
        routers="tests.service.notes.routes:routers",
        snapshot="tests.service.notes.routes:part",
        event_types=("note.counted",),
        account_removers=[AccountRemover(remove_notes_of)],
    )


def _text(tx: Transaction, note_id: str) -> str:
    return str(tx.execute(select(notes.c.text).where(notes.c.id == note_id)).scalar_one())


def settle(tx: Transaction, _engine: Engine, settlements: Sequence[Settlement]) -> None:
    for one in settlements:
        if isinstance(one.outcome, Done):
            words = one.outcome.data
            change = update(notes).where(notes.c.id == one.job.key).values(words=words)
            user_id = tx.execute(change.returning(notes.c.user_id)).scalar_one()
            append_event(tx, "note.counted", subject=str(one.job.key), user_id=user_id, data={"words": words})


def remove_notes_of(tx: Transaction, _engine: Engine, user_id: str, _before: datetime) -> bool:
    tx.execute(delete(notes).where(notes.c.user_id == user_id))
    return False
