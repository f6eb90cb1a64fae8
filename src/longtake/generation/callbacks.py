"""Providers' callbacks: hints, never facts. The most one can do is to have a task asked about now instead of later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import select

from longtake.db import Transaction
from longtake.db.dialects import seconds_until
from longtake.engine.control import hurry
from longtake.engine.engine import Engine
from longtake.generation.kinds import ATTACH, POLL
from longtake.generation.submissions import record_report
from longtake.generation.tables import tasks
from longtake.providers.provider import Provider

log = structlog.get_logger(__name__)

#: Asked about more recently than this, a task is not asked about again for a callback's sake.
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
    ago = seconds_until(tasks.c.last_polled_at).label("ago")
    row = tx.execute(select(*columns, ago).where(tasks.c.id == task_id)).first()
    if row is None or row.status not in {"pending", "running"}:
        return "ended"
    if row.provider_task_id is not None:
        if row.provider_task_id != provider_task_id:
            return "another id"
        if row.ago is not None and -row.ago < REST_SECONDS:
            return "asked just now"
        return "hurried" if hurry(tx, engine, POLL, [task_id], untroubled=True) else "not hurried"
    if not record_report(tx, task_id, provider.name, provider_task_id):
        return "too many reports"
    if row.needs_review:
        lane = provider.query_lane.name
        engine.enqueue(tx, ATTACH, {"provider": provider.name}, key=task_id, lane=lane, subject=task_id)
        return "attaching"
    return "noted"


def log_hint(provider: str, task_id: str, done: str, **facts: Any) -> None:
    """Keep a trace of callbacks: they are the first thing one looks for when a provider misbehaves."""
    log.info("callback", action="callback", provider=provider, task_id=task_id, done=done, **facts)
