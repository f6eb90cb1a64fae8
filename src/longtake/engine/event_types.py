"""How the types of events are asked for, on the stream and by webhooks: by name, or by family."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def patterns_of(types: Sequence[str]) -> tuple[str, ...]:
    """Return all that can be asked for: the types, and each family such as `task.*`."""
    return (*types, *dict.fromkeys(f"{one.partition('.')[0]}.*" for one in types))


def check_pattern(pattern: str, known: Sequence[str]) -> str:
    """Return it; raises ValueError for one that nothing could ever match, such as a misspelt type."""
    if pattern not in known:
        raise ValueError(f"names {pattern[:60]!r}, which is not a type of event; the types are {', '.join(known)}")
    return pattern


def selects(patterns: Sequence[str], kind: str) -> bool:
    """Return whether these patterns ask for events of this type; no pattern at all asks for every type."""
    return not patterns or "*" in patterns or kind in patterns or f"{kind.partition('.')[0]}.*" in patterns
