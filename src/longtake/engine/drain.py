"""Draining the queue within a given time, for hosts that have no permanent worker.

It is a worker like any other: leases, lanes and the fence hold between it and all others. Only its end is its own: it
stops when nothing is due any more, or early enough to finish or give back its jobs in time.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select

from longtake.db import Transaction
from longtake.db.dialects import NOW
from longtake.db.errors import DatabaseUnavailable
from longtake.engine.engine import Engine
from longtake.engine.lane_store import lane_view
from longtake.engine.lanes import next_permit
from longtake.engine.leases import WorkerState, find_workers
from longtake.engine.outcomes import Verdict
from longtake.engine.queue import Ending
from longtake.engine.tables import jobs
from longtake.engine.worker import Worker

#: The last part of the time in which nothing new is begun.
GRACE_PART = 0.5
GRACE_LONGEST = 30.0
#: Of the grace, what writing the last outcomes and signing off may take.
FAREWELL_SECONDS = 1.0
LOOK_SECONDS = 0.1
POLL_SECONDS = 0.5
#: A dead worker is rescued by one that has watched it for its lease's length. Ours must fit into the time of a call
#: like this one: where no worker stays, only such calls can rescue what one of them left.
LEASE_PART = 0.6
LEASE_SHORTEST = 5.0
#: Jobs that wait are counted up to this.
COUNT_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class DrainResult:
    """What was done, and what is left."""

    finished: int
    failed: int
    #: Tries that ended, and have another one to come.
    put_off: int
    #: Given back unspent: the time was up, or a start came too late for its permit.
    given_back: int
    waiting: int
    next_due_at: datetime | None


@dataclass(frozen=True, slots=True)
class Outstanding:
    """What a look at the queues found: whether to stay, how much waits, and when the next may begin."""

    due: bool
    waiting: int
    next_due_at: datetime | None


async def drain(
    engine: Engine,
    seconds: float,
    *,
    lease_seconds: float,
    concurrency: int,
    has_more: Callable[[], Awaitable[bool]],
) -> DrainResult:
    """Work for at most so many seconds; ``has_more`` says whether work is about to come that no row speaks of yet."""
    clock = engine.clock
    grace = min(seconds * GRACE_PART, GRACE_LONGEST)
    window = seconds - grace
    claim_until = clock.monotonic() + window
    lease = min(lease_seconds, max(window * LEASE_PART, LEASE_SHORTEST))
    written: Counter[str] = Counter()
    worker = Worker(
        engine,
        concurrency=concurrency,
        poll_seconds=POLL_SECONDS,
        lease_seconds=lease,
        heartbeat_seconds=lease / 3,
        stop_grace_seconds=max(grace - FAREWELL_SECONDS, grace / 2),
        on_written=lambda verdict: written.update([_word(verdict)]),
    )
    working = asyncio.create_task(worker.run())
    try:
        await _until_idle(worker, working, window, claim_until, has_more)
    finally:
        worker.stop()
        await asyncio.wait([working])
    working.result()
    if not worker.joined:
        raise DatabaseUnavailable(f"The database could not be reached within {seconds:g} s.")
    left = await engine.database.read(outstanding, engine, "", 0.0, 0.0)
    counts = {word: written[word] for word in ("finished", "failed", "put_off", "given_back")}
    return DrainResult(**counts, waiting=left.waiting, next_due_at=left.next_due_at)


async def _until_idle(
    worker: Worker,
    working: asyncio.Task[None],
    window: float,
    claim_until: float,
    has_more: Callable[[], Awaitable[bool]],
) -> None:
    """Wait until nothing is due and nothing runs, or until it is time to stop."""
    clock = worker.engine.clock
    # A look at a database that is away takes longer than the time there is.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(claim_until - clock.monotonic()):
            while not working.done():
                await asyncio.wait([working], timeout=LOOK_SECONDS)
                if worker.claimer.busy or await has_more():
                    continue
                within = claim_until - clock.monotonic()
                found = await worker.database.read(outstanding, worker.engine, worker.id, within, window)
                if not found.due and not worker.claimer.busy:
                    return


def outstanding(tx: Transaction, engine: Engine, worker: str, within: float, window: float) -> Outstanding:
    """Look at the head of every queue; work is due if it may begin ``within`` so many seconds.

    A job of a worker that seems dead is as good as due, if that can become certain in the whole ``window``.
    """
    starts = []
    for head in engine.queue.heads(tx):
        if head.queue.kind in engine.kinds and not head.paused:
            permit = _permit(tx, head.queue.lane) if head.limited else 0.0
            starts.append((head.due_in, max(head.due_in, permit)))
    seen, orphaned = find_workers(tx)
    suspects = any(one.id != worker and _worth_watching(engine, one, window) for one in seen)
    due = bool(orphaned) or suspects or any(due_in <= 0 and start <= within for due_in, start in starts)
    some = select(jobs.c.id).where(jobs.c.state == "ready").limit(COUNT_LIMIT).subquery()
    now, waiting = tx.execute(select(NOW)).scalar_one(), tx.execute(select(func.count()).select_from(some)).scalar_one()
    first = min((start for _due_in, start in starts), default=None)
    return Outstanding(due, waiting, None if first is None else now + timedelta(seconds=max(first, 0.0)))


def _worth_watching(engine: Engine, one: WorkerState, window: float) -> bool:
    """Say whether a worker seems dead and can be known to be before our time is up."""
    if not one.may_exist(engine.database.incarnation):
        return True
    return one.lease_left < 0 and one.lease_seconds < window


def _permit(tx: Transaction, lane: str) -> float:
    view = lane_view(tx, lane)
    return next_permit(view.lane, view.state)


def _word(verdict: Verdict) -> str:
    if isinstance(verdict.change, Ending):
        return "failed" if verdict.change.state == "failed" else "finished"
    return "given_back" if verdict.outcome is None else "put_off"
