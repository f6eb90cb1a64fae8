"""Waiting in tests: for a condition, never for a time.

A wait ends as soon as what it waits for is there. Its patience is far longer than anything takes on a busy machine, so
that only a hang can use it up; then the failure says what was waited for and what was seen last.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

#: Below pytest's own limit, which could not say what was waited for.
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.01


def wait_for(
    look: Callable[[], Any], what: str = "", wanted: Callable[[Any], Any] = bool, *, seconds: float = PATIENCE_SECONDS
) -> Any:
    """Return the first value of `look` that is wanted; by default, the first that is true."""
    give_up_at = time.monotonic() + seconds
    while not wanted(seen := look()):
        if time.monotonic() > give_up_at:
            raise AssertionError(_failure(look, what, seen, seconds))
        time.sleep(LOOK_SECONDS)
    return seen


async def until(
    look: Callable[[], Any], what: str = "", wanted: Callable[[Any], Any] = bool, *, seconds: float = PATIENCE_SECONDS
) -> Any:
    """Do the same in an event loop, which goes on meanwhile; `look` may be a coroutine function."""
    give_up_at = time.monotonic() + seconds
    while not wanted(seen := await _value(look())):
        if time.monotonic() > give_up_at:
            raise AssertionError(_failure(look, what, seen, seconds))
        await asyncio.sleep(LOOK_SECONDS)
    return seen


async def _value(found: Any) -> Any:
    return await found if inspect.isawaitable(found) else found


def _failure(look: Callable[[], Any], what: str, seen: object, seconds: float) -> str:
    """Without a sentence, the source of the condition says what was waited for; its variables say how far it came."""
    try:
        closure = inspect.getclosurevars(look).nonlocals
        source = " ".join(inspect.getsource(look).split())
    except (OSError, TypeError):  # a bound method of a built-in, for example
        closure, source = {}, repr(look)
    looked_at = "".join(f"\n  {name} = {value!r:.2000}" for name, value in closure.items())
    return f"Not within {seconds:g} s: {what or source}; last seen: {seen!r:.2000}{looked_at}"
