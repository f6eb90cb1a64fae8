"""Facts from outside on their way into the record: once known, they are written, whatever becomes of who learned them.

A handler may be stopped at any moment: its lease is lost, its time is up. What a provider answered was paid for and is
known nowhere else, so writing it goes on by itself, for as long as the process lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple

from longtake.db import Database, Transaction
from longtake.db.retry import retry_until_available

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class Facts:
    """Writes that outlive the handler that asked for them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        #: The event loop itself keeps no task alive.
        self._under_way: set[asyncio.Task[Any]] = set()

    async def write(self, function: Callable[[Transaction, *Ts], R], *arguments: *Ts) -> R:
        """Write however long the database is away; being stopped ends the waiting, not the writing."""
        task = asyncio.create_task(retry_until_available(self._database.run, function, *arguments))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)
