"""The types of events that users are told of, on the stream and by webhooks, and how some of them are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

TYPES = (
    *("task.created", "task.running", "task.progress", "task.trouble", "task.needs_review"),
    *("task.completed", "task.failed", "task.cancelled", "task.refunded", "task.deleted"),
    *("asset.added", "asset.progress", "asset.stored", "asset.thumbnail", "asset.preview"),
    *("asset.failed", "asset.expired", "asset.deleted"),
    *("run.created", "run.queued", "run.finished", "run.cancelled", "run.deleted"),
    *("scene.processing", "scene.retrying", "scene.completed", "scene.failed"),
    *("message.changed", "conversation.changed", "conversation.deleted", "credits.changed"),
    *("key.created", "key.revoked", "webhook.disabled"),
)


def patterns_of(types: Sequence[str]) -> tuple[str, ...]:
    """Return all that can be asked for: the types, and each family such as `task.*`."""
    return (*types, *dict.fromkeys(f"{one.partition('.')[0]}.*" for one in types))


def check_pattern(pattern: str, known: Sequence[str]) -> str:
    """Return it; raises ValueError for one that nothing could ever match, such as a misspelt type."""
    if pattern not in known:
        raise ValueError(f"names {pattern[:60]!r}, which is not a type of event; the types are {', '.join(known)}")
    return pattern
