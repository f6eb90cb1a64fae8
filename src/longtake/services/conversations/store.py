"""A user's conversations. Another user's conversation is answered as not found."""

from datetime import datetime
from typing import Any

from sqlalchemy import Column, Integer, Table, Text, delete, func, insert, select, text, tuple_, update

from longtake.clock import new_id
from longtake.db import Transaction
from longtake.db.dialects import NOW, Identifier, Instant
from longtake.engine.engine import Engine
from longtake.engine.events import append_event
from longtake.engine.queries import plain
from longtake.engine.tables import metadata
from longtake.errors import NotFound
from longtake.http.paging import Cursor
from longtake.validation import check_plain_text

conversations = Table(
    "conversations",
    metadata,
    Column("id", Identifier, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("unread", Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("changed_at", Instant, nullable=False),
)

TITLE_LIMIT = 200
PAGE_LIMIT = 200
SHOWN = tuple(conversations.c[name] for name in ("id", "title", "unread", "created_at", "changed_at"))


def create_conversation(tx: Transaction, user_id: str, title: str = "") -> dict[str, Any]:
    """Create an empty conversation."""
    check_plain_text("title", title, most=TITLE_LIMIT)
    values = {"id": new_id(), "user_id": user_id, "title": title, "unread": 0, "created_at": NOW, "changed_at": NOW}
    row = tx.execute(insert(conversations).values(**values).returning(*SHOWN)).one()
    return _changed(tx, user_id, plain(row))


def get_conversation(tx: Transaction, user_id: str, conversation_id: str) -> dict[str, Any]:
    """Return one of the user's conversations."""
    own = (conversations.c.id == conversation_id, conversations.c.user_id == user_id)
    row = tx.execute(select(*SHOWN).where(*own)).first()
    if row is None:
        raise _no_conversation(conversation_id)
    return plain(row)


def list_conversations(
    tx: Transaction, user_id: str, before: Cursor | None = None, limit: int = 50
) -> tuple[list[dict[str, Any]], Cursor | None]:
    """Return a page of the user's conversations, last changed first, and the cursor of the next page, if any."""
    limit = min(limit, PAGE_LIMIT)
    order = (conversations.c.changed_at, conversations.c.id)
    query = select(*SHOWN).where(conversations.c.user_id == user_id)
    if before is not None:
        query = query.where(tuple_(*order) < before)
    rows = tx.execute(query.order_by(*(column.desc() for column in order)).limit(limit + 1)).all()
    cursor = (rows[limit - 1].changed_at, str(rows[limit - 1].id)) if len(rows) > limit else None
    return [plain(row) for row in rows[:limit]], cursor


def count_unread(tx: Transaction, user_id: str) -> int:
    """Return the number of unread answers over all the user's conversations."""
    # Spelled like the condition of the partial index, so that only unread conversations are read.
    unread = text("conversations.unread > 0")
    total = select(func.coalesce(func.sum(conversations.c.unread), 0))
    return int(tx.execute(total.where(conversations.c.user_id == user_id, unread)).scalar_one())


def rename_conversation(tx: Transaction, user_id: str, conversation_id: str, title: str) -> dict[str, Any]:
    """Change the title of a conversation."""
    check_plain_text("title", title, most=TITLE_LIMIT)
    return change_conversation(tx, user_id, conversation_id, title=title, changed_at=NOW)


def mark_read(tx: Transaction, user_id: str, conversation_id: str) -> dict[str, Any]:
    """Mark the conversation as read. Its place in the list stays, because nothing was said."""
    found = get_conversation(tx, user_id, conversation_id)
    return found if not found["unread"] else change_conversation(tx, user_id, conversation_id, unread=0)


def change_conversation(tx: Transaction, user_id: str, conversation_id: str, **values: Any) -> dict[str, Any]:
    """Change one of the user's conversations and write an event. Its row stays locked until the commit."""
    own = (conversations.c.id == conversation_id, conversations.c.user_id == user_id)
    row = tx.execute(update(conversations).where(*own).values(**values).returning(*SHOWN)).first()
    if row is None:
        raise _no_conversation(conversation_id)
    return _changed(tx, user_id, plain(row))


def remove_conversation(tx: Transaction, user_id: str, conversation_id: str) -> None:
    """Delete one of the user's conversations with its messages."""
    own = (conversations.c.id == conversation_id, conversations.c.user_id == user_id)
    if tx.execute(delete(conversations).where(*own)).rowcount == 0:
        raise _no_conversation(conversation_id)
    append_event(tx, "conversation.deleted", subject=conversation_id, user_id=user_id, data={})


def remove_conversations_of(tx: Transaction, _engine: Engine, user_id: str, before: datetime) -> bool:
    """Remove a page of the conversations that a user had at that time; say whether there may be more."""
    mine = (conversations.c.user_id == user_id, conversations.c.created_at <= before)
    page = select(conversations.c.id).where(*mine).order_by(conversations.c.id).limit(PAGE_LIMIT)
    found = tx.execute(page).scalars().all()
    for conversation_id in found:
        remove_conversation(tx, user_id, conversation_id)
    return len(found) == PAGE_LIMIT


def _no_conversation(conversation_id: str) -> NotFound:
    """Return the same error for a conversation that does not exist and for another user's."""
    return NotFound(f"There is no conversation {conversation_id}.", hint="GET /v1/conversations lists yours.")


def _changed(tx: Transaction, user_id: str, conversation: dict[str, Any]) -> dict[str, Any]:
    data = {"unread": conversation["unread"]}
    append_event(tx, "conversation.changed", subject=conversation["id"], user_id=user_id, data=data)
    return conversation
