"""Messages of a conversation: the user's own words, and the list of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select

from longtake.clock import new_id
from longtake.db.dialects import NOW
from longtake.engine.events import append_event
from longtake.engine.queries import plain
from longtake.plain_text import check_plain_text
from longtake.services.conversations.store import PAGE_LIMIT, change_conversation, get_conversation
from longtake.services.conversations.tables import messages

if TYPE_CHECKING:
    from longtake.db import Transaction

TEXT_LIMIT = 10_000
SHOWN = tuple(column for column in messages.c if column.name != "user_id")


def add_message(tx: Transaction, user_id: str, conversation_id: str, text: str) -> dict[str, Any]:
    """Write what the user says. It makes nothing unread: the user knows it."""
    check_plain_text("text", text, most=TEXT_LIMIT, least=1)
    change_conversation(tx, user_id, conversation_id, changed_at=NOW)
    values = message_values(new_id(), conversation_id, user_id, "user", text=text)
    row = tx.execute(insert(messages).values(**values).returning(*SHOWN)).one()
    told = {"conversation_id": conversation_id, "role": "user", "state": "completed"}
    append_event(tx, "message.changed", subject=str(row.id), user_id=user_id, data=told)
    return plain(row)


def list_messages(
    tx: Transaction, user_id: str, conversation_id: str, before: str | None = None, limit: int = 50
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the newest messages first, and the cursor for those before them, if any."""
    get_conversation(tx, user_id, conversation_id)
    limit = min(limit, PAGE_LIMIT)
    query = select(*SHOWN).where(messages.c.conversation_id == conversation_id, messages.c.user_id == user_id)
    if before is not None:
        query = query.where(messages.c.id < before)
    rows = tx.execute(query.order_by(messages.c.id.desc()).limit(limit + 1)).all()
    cursor = str(rows[limit - 1].id) if len(rows) > limit else None
    return [plain(row) for row in rows[:limit]], cursor


def message_values(message_id: str, conversation_id: str, user_id: str, role: str, **rest: Any) -> dict[str, Any]:
    """Return a new message's columns."""
    values = {"id": message_id, "conversation_id": conversation_id, "user_id": user_id, "role": role}
    defaults = {"state": "completed", "text": "", "task_id": None, "data": None}
    return {**values, **defaults, "created_at": NOW, "changed_at": NOW, **rest}
