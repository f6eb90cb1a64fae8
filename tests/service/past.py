"""Jobs that have a past: ended the way the engine ends them, and made older than they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import update

from longtake.clock import new_id
from longtake.engine.engine import QUEUES
from longtake.engine.outcomes import error_json
from longtake.engine.queue import Ending
from longtake.engine.tables import jobs

if TYPE_CHECKING:
    from longtake import Transaction


def end_job(tx: Transaction, job_id: str, state: str, code: str | None = None) -> None:
    """Lease a job and end it, with its attempt and its event, as a worker does."""
    token = new_id()
    lease = {"state": "running", "lease_token": token, "worker": new_id(), "attempt": jobs.c.attempt + 1}
    tx.execute(update(jobs).where(jobs.c.id == job_id).values(**lease))
    error = None if code is None else error_json(code, "for the test")
    assert QUEUES[tx.dialect]().end(tx, [Ending(job_id, token, state, state, error)]) == {job_id}
