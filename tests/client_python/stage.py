"""The two clients under one roof: the same steps for both, whether a call has to be awaited or not."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from longtake.client import AsyncClient, Client

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOKEN = "a-token"
CLIENTS: dict[str, Callable[..., Any]] = {"synchronous": Client, "asynchronous": AsyncClient}


def names(folder: Path) -> list[str]:
    """What lies in a folder."""
    return sorted(path.name for path in folder.iterdir())


async def done(value: Any) -> Any:
    """Return what a call of either client gives."""
    return await value if inspect.isawaitable(value) else value


async def first(items: Any, count: int, wanted: Callable[[Any], bool] = lambda _item: True) -> list[Any]:
    """Return the first so many items of either client's iterator that are wanted, and close it."""
    found: list[Any] = []
    if hasattr(items, "__aiter__"):
        async for item in items:
            found += [item] if wanted(item) else []
            if len(found) == count:
                break
        await items.aclose()
    else:
        for item in items:
            found += [item] if wanted(item) else []
            if len(found) == count:
                break
        items.close()
    return found


async def every(items: Any) -> list[Any]:
    """Return all items of either client's iterator."""
    return await first(items, -1)
