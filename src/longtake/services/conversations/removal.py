"""Conversations that go with all that was said, and answers that go with their tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import case, delete, func, select, update

from longtake.engine.events import append_event, append_events
from longtake.services.conversations.answers import WORTH_A_LOOK
from longtake.services.conversations.store import no_conversation
from longtake.services.conversations.tables import conversations, messages

if TYPE_CHECKING:
    from collections.abc import Mapping

    from longtake.db import Transaction


def remove_conversation(tx: Transaction, user_id: str, conversation_id: str) -> None:
    """Remove a conversation of the user's; its messages go with it."""
    own = (conversations.c.id == conversation_id, conversations.c.user_id == user_id)
    if tx.execute(delete(conversations).where(*own)).rowcount == 0:
        raise no_conversation(conversation_id)
    append_event(tx, "conversation.deleted", subject=conversation_id, user_id=user_id, data={})


def remove_messages_of_tasks(tx: Transaction, conversation_of: Mapping[str, str]) -> None:
    """Remove what was asked and answered, given the conversation of each task; nothing that is gone stays unread."""
    if not conversation_of:
        return
    touched = sorted(set(conversation_of.values()))
    # As whatever writes answers: conversations first, in the order of their ids.
    tx.execute(select(conversations.c.id).where(conversations.c.id.in_(touched)).order_by("id").with_for_update())
    about = (messages.c.conversation_id.in_(touched), messages.c.task_id.in_(sorted(conversation_of)))
    tx.execute(delete(messages).where(*about))
    answers = (messages.c.conversation_id == conversations.c.id, messages.c.role == "assistant")
    left = select(func.count()).where(*answers, messages.c.state.in_(WORTH_A_LOOK)).scalar_subquery()
    fewer = case((conversations.c.unread > left, left), else_=conversations.c.unread)
    change = update(conversations).where(conversations.c.id.in_(touched)).values(unread=fewer)
    columns = (conversations.c.id, conversations.c.user_id, conversations.c.unread)
    rows = tx.execute(change.returning(*columns)).all()
    append_events(tx, [("conversation.changed", row.id, row.user_id, {"unread": row.unread}) for row in rows])
