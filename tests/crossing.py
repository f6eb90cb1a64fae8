"""Two transactions that meet: one stands still in its middle until the other waits for it, or has ended without."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from longtake import Worker
from longtake.engine.outcomes import judge
from tests.wait import PATIENCE_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake import Database, Engine, Job, Outcome, Settlement, Transaction
    from longtake.engine.outcomes import Verdict

#: What begins and stands still, when it calls what it is given, in the middle of its transaction.
First = Callable[[Callable[[], None]], Awaitable[Any]]

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def waiting(tx: Transaction) -> int:
    """Return how many transactions of this database wait for a lock."""
    return int(tx.sql(WAITING)[0][0])


def ending(engine: Engine, job: Job, outcome: Outcome) -> First:
    """Return the end of a job that stands still when the job's row is written, and nothing of its kind yet."""
    return ending_all(
        engine, [judge(engine.kinds[job.kind], job, outcome, job.lease_token, random.Random(1))], job.kind
    )


def ending_all(engine: Engine, verdicts: list[Verdict], kind: str) -> First:
    """Return the end of several jobs of one worker, which stands still when it comes to this kind."""

    async def end(stand_still: Callable[[], None]) -> None:
        usual = engine.kinds[kind]

        def settle(tx: Transaction, engine: Engine, settlements: Sequence[Settlement]) -> None:
            stand_still()
            assert usual.settle is not None
            usual.settle(tx, engine, settlements)

        engine.kinds[kind] = replace(usual, settle=settle)
        try:
            await Worker(engine).completer.exchange(verdicts, (), 0)
        finally:
            engine.kinds[kind] = usual

    return end


async def meet(database: Database, first: First, second: Callable[[], Awaitable[Any]]) -> tuple[Any, Any]:
    """Do the first, which calls what it is given in the middle of its transaction, and there begin the second.

    Returns what both came to.
    """
    there, go_on = threading.Event(), threading.Event()

    def stand_still() -> None:
        if not there.is_set():
            there.set()
            assert go_on.wait(PATIENCE_SECONDS)

    outer = asyncio.ensure_future(first(stand_still))
    try:
        assert await asyncio.to_thread(there.wait, PATIENCE_SECONDS)
        inner = asyncio.ensure_future(second())

        async def met() -> bool:
            return inner.done() or await database.read(waiting) > 0

        await until(met, "the second transaction has ended, or waits for the first")
    finally:
        go_on.set()
    return await outer, await inner
