"""Deletes an account: everything that the user had at that moment.

Keys, answers kept for idempotency, and what else must not outlive the request go at once, in the transaction that also
enqueues the job ``accounts.delete``. The job removes the rest in pages, because it may be much. Users exist by their
tokens alone, so a user who comes back starts afresh: the job touches nothing that is made after the moment.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete

from longtake.capability import AccountRemover
from longtake.db import Database, Transaction
from longtake.engine.engine import Engine
from longtake.engine.jobs import Job
from longtake.engine.kinds import Exponential, JobKind
from longtake.engine.outcomes import Done, Outcome
from longtake.engine.schedules import database_now
from longtake.http.idempotency import idempotency_keys
from longtake.services.accounts.api_keys import api_keys

DELETE = "accounts.delete"


@dataclass(frozen=True, slots=True)
class AccountDeletion:
    """Calls what capabilities have registered to remove a user's rows, in the given order."""

    database: Database
    removers: Callable[[], Sequence[AccountRemover]]

    def kind(self) -> JobKind:
        return JobKind(DELETE, self.run, time_limit=600.0, max_attempts=1_000, back_off=Exponential())

    def begin(self, tx: Transaction, engine: Engine, user_id: str) -> None:
        """Remove what goes at once, and enqueue the rest. Repeating it does no harm."""
        before = database_now(tx)
        for table in (api_keys, idempotency_keys):
            tx.execute(delete(table).where(table.c.user_id == user_id))
        for one in self.removers():
            while one.at_once and one.remove(tx, engine, user_id, before):
                pass
        engine.enqueue(tx, DELETE, {"user": user_id, "before": before.isoformat()})

    async def run(self, job: Job) -> Outcome:
        """Remove everything in pages, each in its own transaction: after a kill, the job goes on where it was."""
        user_id, before = job.args["user"], datetime.fromisoformat(job.args["before"])
        for one in self.removers():
            while not one.at_once and await self.database.run(one.remove, job.engine, user_id, before):
                pass
        return Done()
