"""Conversations, and their removal with an account."""

from longtake.capability import AccountRemover, Capability, Context
from longtake.services.conversations.store import remove_conversations_of


def capability(_context: Context) -> Capability:
    """Return what conversations register."""
    return Capability(
        routers="longtake.services.conversations.routes:routers",
        event_types=("message.changed", "conversation.changed", "conversation.deleted"),
        snapshot="longtake.services.conversations.routes:part",
        account_removers=[AccountRemover(remove_conversations_of)],
    )
