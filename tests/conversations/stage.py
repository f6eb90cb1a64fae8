"""What tests of conversations have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from longtake.clock import new_id
from longtake.engine.tables import events
from longtake.services.conversations.messages import FinishedMessage, open_placeholder
from longtake.services.conversations.store import create_conversation

if TYPE_CHECKING:
    from longtake import Transaction


def talk(tx: Transaction, user_id: str = "ada", title: str = "Lighthouses") -> str:
    """Begin a conversation; return its id."""
    return str(create_conversation(tx, user_id, title)["id"])


def ask(tx: Transaction, conversation_id: str, user_id: str = "ada", prompt: str = "A lighthouse") -> FinishedMessage:
    """Open a placeholder; return what its end would be."""
    task_id, message_id = new_id(), new_id()
    open_placeholder(
        tx,
        conversation_id=conversation_id,
        user_id=user_id,
        task_id=task_id,
        prompt=prompt,
        message_id=message_id,
        data={"model": "m", "cost": 3},
    )
    data = {"model": "m", "cost": 3, "seconds": 4.5}
    return FinishedMessage(task_id, conversation_id, user_id, "completed", "Here it is.", data, message_id)


def told(tx: Transaction) -> list[tuple[Any, ...]]:
    """Return type, subject, user and data of all events, in order."""
    columns = (events.c.type, events.c.subject, events.c.user_id, events.c.data)
    return [tuple(row) for row in tx.execute(select(*columns).order_by(events.c.sequence))]
