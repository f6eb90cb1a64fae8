"""A user's conversations: made, listed, renamed, read. Whoever asks for somebody else's hears that there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import func, insert, literal_column, select, tuple_, update

from longtake.clock import new_id
from longtake.db.dialects import NOW
from longtake.engine.events import append_event
from longtake.engine.queries import plain
from longtake.errors import NotFound
from longtake.plain_text import check_plain_text
from longtake.services.conversations.tables import conversations

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement

    from longtake.db import Transaction
    from longtake.http.paging import Cursor

TITLE_LIMIT = 200
PAGE_LIMIT = 200
SHOWN = tuple(conversations.c[name] for name in ("id", "title", "unread", "created_at", "changed_at"))


def create_conversation(tx: Transaction, user_id: str, title: str = "") -> dict[str, Any]:
    """Make an empty conversation."""
    check_plain_text("title", title, most=TITLE_LIMIT)
    values = {"id": new_id(), "user_id": user_id, "title": title, "unread": 0, "created_at": NOW, "changed_at": NOW}
    row = tx.execute(insert(conversations).values(**values).returning(*SHOWN)).one()
    return _changed(tx, user_id, plain(row))


def get_conversation(tx: Transaction, user_id: str, conversation_id: str) -> dict[str, Any]:
    """Return one conversation of the user's."""
    own = (conversations.c.id == conversation_id, conversations.c.user_id == user_id)
    row = tx.execute(select(*SHOWN).where(*own)).first()
    if row is None:
        raise no_conversation(conversation_id)
    return plain(row)


def list_conversations(
    tx: Transaction, user_id: str, before: Cursor | None = None, limit: int = 50
) -> tuple[list[dict[str, Any]], Cursor | None]:
    """Return the user's conversations, the last changed first, and the cursor for those before them, if any."""
    limit = min(limit, PAGE_LIMIT)
    order = (conversations.c.changed_at, conversations.c.id)
    query = select(*SHOWN).where(conversations.c.user_id == user_id)
    if before is not None:
        query = query.where(tuple_(*order) < before)
    rows = tx.execute(query.order_by(*(column.desc() for column in order)).limit(limit + 1)).all()
    cursor = (rows[limit - 1].changed_at, str(rows[limit - 1].id)) if len(rows) > limit else None
    return [plain(row) for row in rows[:limit]], cursor


def count_unread(tx: Transaction, user_id: str) -> int:
    """Return how many answers the user has not read, over all conversations."""
    # Written as the partial index has it: only conversations with something unread are looked at.
    unread: ColumnElement[bool] = literal_column("conversations.unread > 0")
    total = select(func.coalesce(func.sum(conversations.c.unread), 0))
    return int(tx.execute(total.where(conversations.c.user_id == user_id, unread)).scalar_one())


def rename_conversation(tx: Transaction, user_id: str, conversation_id: str, title: str) -> dict[str, Any]:
    """Give the conversation another title."""
    check_plain_text("title", title, most=TITLE_LIMIT)
    return change_conversation(tx, user_id, conversation_id, title=title, changed_at=NOW)


def mark_read(tx: Transaction, user_id: str, conversation_id: str) -> dict[str, Any]:
    """Note that the user has seen all there is. Its place in the list stays: nothing new was said."""
    found = get_conversation(tx, user_id, conversation_id)
    return found if not found["unread"] else change_conversation(tx, user_id, conversation_id, unread=0)


def change_conversation(tx: Transaction, user_id: str, conversation_id: str, **values: Any) -> dict[str, Any]:
    """Change a conversation of the user's and tell of it; its row stays locked until the commit."""
    own = (conversations.c.id == conversation_id, conversations.c.user_id == user_id)
    row = tx.execute(update(conversations).where(*own).values(**values).returning(*SHOWN)).first()
    if row is None:
        raise no_conversation(conversation_id)
    return _changed(tx, user_id, plain(row))


def no_conversation(conversation_id: str) -> NotFound:
    """Say the same of a conversation that does not exist and of one that is somebody else's."""
    return NotFound(f"There is no conversation {conversation_id}.", hint="GET /v1/conversations lists yours.")


def _changed(tx: Transaction, user_id: str, conversation: dict[str, Any]) -> dict[str, Any]:
    data = {"unread": conversation["unread"]}
    append_event(tx, "conversation.changed", subject=conversation["id"], user_id=user_id, data=data)
    return conversation
