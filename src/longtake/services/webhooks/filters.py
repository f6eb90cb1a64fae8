"""Which events an endpoint gets: exact types such as `task.completed`, or a family such as `task.*`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtake.engine.event_types import TYPES, patterns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Events about webhooks are not among them: telling of those could go in circles.
TOLD = tuple(one for one in TYPES if not one.startswith("webhook."))
FAMILIES = frozenset(one.partition(".")[0] for one in TOLD)
PATTERNS = patterns_of(TOLD)
MOST_PATTERNS = 50


def is_told(kind: str) -> bool:
    """Say whether events of this type are sent at all."""
    return kind.partition(".")[0] in FAMILIES


def wants(patterns: Sequence[str], kind: str) -> bool:
    """Say whether an endpoint with these patterns gets events of this type; without any it gets all."""
    return not patterns or kind in patterns or f"{kind.partition('.')[0]}.*" in patterns
