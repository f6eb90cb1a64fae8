"""Providers' callbacks: hints, never facts. All a callback can do is make a task's next poll come sooner."""

from __future__ import annotations

from typing import Any

import structlog
from sqlalchemy import select

from longtake.adapters.providers.provider import Provider
from longtake.capabilities.generation.lost_submits import enqueue_attach
from longtake.capabilities.generation.submissions import record_report
from longtake.capabilities.generation.tables import POLL, TASK_KINDS, tasks
from longtake.db import Transaction
from longtake.db.dialects import seconds_until
from longtake.engine.control import look_again
from longtake.engine.engine import Engine
from longtake.engine.tables import jobs

log = structlog.get_logger(__name__)

#: However many callbacks come, they make no poll start sooner than this after the last one.
REST_SECONDS = 1.0


def find_callback_task(tx: Transaction, provider: str, reference: str) -> str | None:
    """Return the id of the task that the reference belongs to."""
    ours = (tasks.c.reference == reference, tasks.c.provider == provider)
    return tx.execute(select(tasks.c.id).where(*ours)).scalar()


def take_hint(tx: Transaction, engine: Engine, provider: Provider, task_id: str, provider_task_id: str) -> str:
    """Act on a callback; return what was done, for the log."""
    columns = (tasks.c.status, tasks.c.needs_review, tasks.c.provider_task_id, tasks.c.last_polled_at)
    until_last = seconds_until(tasks.c.last_polled_at).label("until_last")
    find = select(*columns, until_last).where(tasks.c.id == task_id)
    row = tx.execute(find).first()
    if row is not None and row.provider_task_id is None:
        # The acceptance may be about to be written to this row. One transaction waits for the other: either the row
        # has the id after the wait, or the transaction that writes it finds the report and polls at once. They meet at
        # the task's jobs, which come before its row in the order of locks.
        of_task = (jobs.c.subject == task_id, jobs.c.kind.in_(TASK_KINDS))
        tx.execute(select(jobs.c.id).where(*of_task).order_by(jobs.c.id).with_for_update()).all()
        row = tx.execute(find).first()
    if row is None or row.status not in {"pending", "running"}:
        return "ended"
    if row.provider_task_id is not None:
        if row.provider_task_id != provider_task_id:
            return "another id"
        return "hurried" if _hurry(tx, task_id, row.until_last) else "about to be asked"
    if not record_report(tx, task_id, provider.name, provider_task_id):
        return "too many reports"
    if row.needs_review:
        enqueue_attach(tx, engine, provider, task_id)
        return "attaching"
    return "noted"


def _hurry(tx: Transaction, task_id: str, until_last: float | None) -> bool:
    """Poll the task once after this moment, and soon, even while a poll runs or waits out trouble."""
    rested = REST_SECONDS if until_last is None else min(max(-until_last, 0.0), REST_SECONDS)
    return look_again(tx, POLL, task_id, waiting=REST_SECONDS - rested, running=REST_SECONDS)


def log_hint(provider: str, task_id: str, done: str, **facts: Any) -> None:
    """Log a callback: these lines are the first thing to look for when a provider misbehaves."""
    log.info("callback", action="callback", provider=provider, task_id=task_id, done=done, **facts)
