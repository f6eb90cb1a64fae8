"""Threads of a store's own. A disk that says nothing holds these, and nobody else's: names are resolved on others."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Callable

Ts = TypeVarTuple("Ts")


class Threads:
    """At most so many, started when they are needed. What is called goes on if whoever asked for it is cancelled.

    What has not begun by then never does.
    """

    def __init__(self, most: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix=name)

    def call(self, call: Callable[[*Ts], Any], *arguments: *Ts) -> asyncio.Future[Any]:
        """Call on a thread; what is logged there still says whose work it is."""
        return asyncio.get_running_loop().run_in_executor(self._pool, copy_context().run, call, *arguments)

    def leave_to(self, call: Callable[[*Ts], None], *arguments: *Ts) -> None:
        """Call on a thread when one is free. Nobody waits for it, and nobody hears what it has met."""
        # After the end of all work there is nothing to be left but what a sweep finds.
        with contextlib.suppress(RuntimeError):
            self._pool.submit(call, *arguments)

    def close(self) -> None:
        """Take nothing more. What is under way comes to its end, however long that takes."""
        self._pool.shutdown(wait=False)
