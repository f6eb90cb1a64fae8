"""What every worker does beside its jobs, each at its own interval. No worker is special: any may die."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import structlog
from sqlalchemy import select

from longtake.db import Transaction
from longtake.db.database import TRANSIENT
from longtake.db.errors import DatabaseError
from longtake.engine.control import cancels_requested, carry_out_cancel
from longtake.engine.engine import Engine
from longtake.engine.executor import StopReason
from longtake.engine.leases import ORPHANED, Witness, find_workers, job_from, remove_dead_workers
from longtake.engine.outcomes import Fail, judge_crash, unsettled
from longtake.engine.schedules import fire_due, schedule_is_due
from longtake.engine.tables import jobs
from longtake.redaction import redact_text

if TYPE_CHECKING:
    from longtake.engine.worker import Worker

log = structlog.get_logger(__name__)

#: A dead worker is noticed at most this part of a lease after the lease ran out.
RESCUES_PER_LEASE = 6
RESCUE_BATCH = 200
#: One look at all running handlers is far cheaper than a timer for each job.
TIME_LIMIT_CHECK_SECONDS = 0.1


def start_maintenance(worker: Worker) -> list[asyncio.Task[None]]:
    """Start them all."""
    witness = Witness(worker.engine.clock, worker.lease_seconds, worker.database.incarnation)
    poll = worker.timer.poll_seconds
    return [
        asyncio.create_task(_repeat(TIME_LIMIT_CHECK_SECONDS, enforce_time_limits, worker)),
        asyncio.create_task(_repeat(worker.lease_seconds / RESCUES_PER_LEASE, rescue_the_dead, worker, witness)),
        asyncio.create_task(_repeat(poll, fire_schedules, worker)),
        asyncio.create_task(_repeat(poll, cancel_requested, worker)),
    ]


async def _repeat(interval: float, duty: Callable[..., Awaitable[None]], *arguments: Any) -> None:
    while True:
        try:
            await duty(*arguments)
        except DatabaseError as error:
            log.warning("duty put off", action=duty.__name__, code=error.code, error=error.message)
        except Exception:
            log.exception("duty failed", action=duty.__name__)
        await asyncio.sleep(interval)


async def enforce_time_limits(worker: Worker) -> None:
    """Stop handlers that run for too long."""
    now = worker.engine.clock.monotonic()
    for one in worker.executor.all():
        if one.started_at is not None and now - one.started_at > one.kind.time_limit:
            one.stop(StopReason.TIME_LIMIT)


async def rescue_the_dead(worker: Worker, witness: Witness) -> None:
    """Remove the workers that are dead, and rescue their jobs."""
    database = worker.database
    seen, orphaned = await database.read(find_workers)
    dead = witness.dead(seen, worker.id)
    if dead:
        gone = await database.run(remove_dead_workers, dead)
        orphaned += len(gone)
        log.warning("workers are dead, rescuing their jobs", action="bury", workers=gone)
    while orphaned:
        rescued = await _rescue_batch(worker)
        if not rescued:
            return
        log.warning("jobs rescued", action="rescue", count=rescued)
        worker.timer.wake()


async def _rescue_batch(worker: Worker) -> int:
    """Rescue many at once; when one of them cannot be settled, each by itself."""
    database, engine = worker.database, worker.engine
    try:
        return await database.run(rescue, engine)
    except TRANSIENT:
        raise
    except Exception:
        log.warning("a batch could not be rescued; rescuing one by one", action="rescue", exc_info=True)
    rescued = 0
    for job_id in await database.read(orphans):
        try:
            rescued += await database.run(rescue, engine, job_id)
        except TRANSIENT:
            raise
        except Exception as error:
            log.exception("a rescued job could not be settled", action="rescue", job_id=job_id)
            rescued += await database.run(set_aside, engine, job_id, redact_text(f"{type(error).__name__}: {error}"))
    return rescued


async def fire_schedules(worker: Worker) -> None:
    """Enqueue the jobs of schedules that are due."""
    if await worker.database.read(schedule_is_due):
        for name in await worker.database.run(fire_due, worker.engine):
            log.debug("schedule fired", action="fire", schedule=name)


async def cancel_requested(worker: Worker) -> None:
    """Cancel the waiting jobs that an operator wants cancelled."""
    for job_id in await worker.database.read(cancels_requested, worker.engine):
        try:
            await worker.database.run(carry_out_cancel, worker.engine, job_id)
        except TRANSIENT:
            raise
        except Exception:
            log.exception("a cancel could not be settled", action="cancel", job_id=job_id)


def rescue(tx: Transaction, engine: Engine, only: str | None = None) -> int:
    """Give the jobs of workers that are gone to others, or end those that crash again and again; some in each call.

    A job of a kind this process does not know may go back to the queue, but only one that knows it may end it.
    """
    query = select(jobs).where(*ORPHANED, *([jobs.c.id == only] if only else []))
    verdicts = []
    for row in tx.execute(query.limit(RESCUE_BATCH).with_for_update(skip_locked=True, of=jobs)):
        verdict = judge_crash(job_from(row), row.worker)
        if isinstance(verdict.outcome, Fail) and row.kind not in engine.kinds:
            continue
        verdicts.append(verdict)
    return len(engine.finish(tx, engine.split(verdicts)[0]))


def orphans(tx: Transaction) -> list[str]:
    """Return the running jobs whose workers are gone."""
    return list(tx.execute(select(jobs.c.id).where(*ORPHANED)).scalars())


def set_aside(tx: Transaction, engine: Engine, job_id: str, message: str) -> int:
    """Let an orphan whose effects cannot be written wait for a while, without asking its settle."""
    query = select(jobs).where(*ORPHANED, jobs.c.id == job_id).with_for_update(skip_locked=True, of=jobs)
    verdicts = [unsettled(job_from(row), row.worker, message) for row in tx.execute(query)]
    return len(engine.finish(tx, verdicts))
