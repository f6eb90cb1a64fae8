"""Retries while the database is away: what has to be written is tried until it is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from longtake.db.errors import DatabaseReadOnly, DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

R = TypeVar("R")

log = structlog.get_logger(__name__)

#: Trouble that passes by itself. Anything else is a mistake of ours or the handler's, and waiting would not help.
TRANSIENT = (DatabaseUnavailable, DatabaseReadOnly)
PAUSE_SECONDS = 0.5


async def retry_until_available(call: Callable[..., Awaitable[R]], *arguments: Any) -> R:
    """Return what the call returns, tried until the database answers."""
    while True:
        try:
            return await call(*arguments)
        except TRANSIENT as error:
            log.warning("database trouble, trying again", action="wait", code=error.code, error=error.message)
            await asyncio.sleep(PAUSE_SECONDS)
