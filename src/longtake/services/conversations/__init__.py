"""Conversations: what a user asked for and what came of it, message by message.

An answer that is still being made has a placeholder. It becomes the finished message exactly once, in the transaction
that ends its task, and makes the conversation unread until its user has looked.
"""

from longtake.services.conversations.answers import FinishedMessage, finish_messages, open_placeholder
from longtake.services.conversations.messages import add_message, list_messages
from longtake.services.conversations.store import (
    create_conversation,
    get_conversation,
    list_conversations,
    mark_read,
    rename_conversation,
)

__all__ = [
    "FinishedMessage",
    "add_message",
    "create_conversation",
    "finish_messages",
    "get_conversation",
    "list_conversations",
    "list_messages",
    "mark_read",
    "open_placeholder",
    "rename_conversation",
]
