"""Providers' callbacks: hints, never facts. The most one can do is to have a task asked about now instead of later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import select

from longtake.adapters.providers.provider import Provider
from longtake.capabilities.generation.submissions import record_report
from longtake.capabilities.generation.tables import ATTACH, POLL, tasks
from longtake.db import Transaction
from longtake.db.dialects import seconds_until
from longtake.engine.control import look_again
from longtake.engine.engine import Engine

log = structlog.get_logger(__name__)

#: For callbacks' sake a task is not asked about again sooner than this after the last time, however many come.
REST_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Addressee:
    """The task whose reference a callback brought."""

    task_id: str
    status: str
    provider_task_id: str | None


def find_addressee(tx: Transaction, provider: str, reference: str) -> Addressee | None:
    """Return the task the reference belongs to."""
    ours = (tasks.c.reference == reference, tasks.c.provider == provider)
    row = tx.execute(select(tasks.c.id, tasks.c.status, tasks.c.provider_task_id).where(*ours)).first()
    return None if row is None else Addressee(row.id, row.status, row.provider_task_id)


def take_hint(tx: Transaction, engine: Engine, provider: Provider, task_id: str, provider_task_id: str) -> str:
    """Act on a callback; return what was done, for the log."""
    columns = (tasks.c.status, tasks.c.needs_review, tasks.c.provider_task_id, tasks.c.last_polled_at)
    until_last = seconds_until(tasks.c.last_polled_at).label("until_last")
    find = select(*columns, until_last).where(tasks.c.id == task_id)
    row = tx.execute(find).first()
    if row is not None and row.provider_task_id is None:
        # The acceptance may be on its way into this row. One waits for the other: either the row has the id when the
        # wait is over, or whoever writes it there finds the report and asks at once.
        row = tx.execute(find.with_for_update()).first()
    if row is None or row.status not in {"pending", "running"}:
        return "ended"
    if row.provider_task_id is not None:
        if row.provider_task_id != provider_task_id:
            return "another id"
        return "hurried" if _hurry(tx, task_id, row.until_last) else "about to be asked"
    if not record_report(tx, task_id, provider.name, provider_task_id):
        return "too many reports"
    if row.needs_review:
        lane = provider.query_lane.name
        engine.enqueue(tx, ATTACH, {"provider": provider.name}, key=task_id, lane=lane, subject=task_id)
        return "attaching"
    return "noted"


def _hurry(tx: Transaction, task_id: str, until_last: float | None) -> bool:
    """Have the task asked about after this moment: once, and soon, also when a poll runs or waits out trouble."""
    rested = REST_SECONDS if until_last is None else min(max(-until_last, 0.0), REST_SECONDS)
    return look_again(tx, POLL, task_id, waiting=REST_SECONDS - rested, running=REST_SECONDS)


def log_hint(provider: str, task_id: str, done: str, **facts: Any) -> None:
    """Keep a trace of callbacks: they are the first thing one looks for when a provider misbehaves."""
    log.info("callback", action="callback", provider=provider, task_id=task_id, done=done, **facts)
