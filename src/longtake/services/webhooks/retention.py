"""Forgetting deliveries that are old enough. Their ids begin with the time: old ones stand first in the primary key."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import delete, select

from longtake.engine.jobs import Priority
from longtake.engine.kinds import JobKind
from longtake.engine.outcomes import Done
from longtake.engine.schedules import Schedule, database_now
from longtake.services.webhooks.tables import webhook_deliveries

if TYPE_CHECKING:
    from longtake.db import Database, Transaction
    from longtake.engine.jobs import Job
    from longtake.engine.outcomes import Outcome

PRUNE = "webhooks.prune"
PAGE = 1_000
EVERY_SECONDS = 3_600.0


def prune_kind(database: Database, days: float) -> JobKind:
    """Return the kind that removes deliveries older than so many days."""

    async def prune(_job: Job) -> Outcome:
        while await database.run(prune_page, days) == PAGE:
            pass
        return Done()

    return JobKind(PRUNE, prune, priority=Priority.LOW, time_limit=600.0)


def prune_schedule() -> Schedule:
    """Return when it runs."""
    return Schedule(PRUNE, PRUNE, every=EVERY_SECONDS)


def prune_page(tx: Transaction, days: float) -> int:
    """Remove one page of them; return how many there were. What is still to be delivered stays."""
    milliseconds = int((database_now(tx) - timedelta(days=days)).timestamp() * 1000)
    first_kept = str(uuid.UUID(int=milliseconds << 80))
    old = (webhook_deliveries.c.id < first_kept, webhook_deliveries.c.state != "pending")
    page = select(webhook_deliveries.c.id).where(*old).order_by(webhook_deliveries.c.id).limit(PAGE)
    return tx.execute(delete(webhook_deliveries).where(webhook_deliveries.c.id.in_(page))).rowcount
